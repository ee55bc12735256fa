"""No parser of a probe raises, whatever text it is given."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.probes import (
    access,
    amd_smi,
    apple,
    apt_conf,
    ascend_info,
    cdi,
    cnmon,
    container_scope,
    containers,
    cpu,
    dists,
    dnf,
    docker,
    engine_names,
    environment,
    launch_arguments,
    layout,
    limits,
    memory,
    mindie,
    model_files,
    mounts,
    npu_smi,
    npu_smi_board,
    npu_smi_failure,
    packages,
    platform,
    process_maps,
    processes,
    rocm,
    rocm_smi,
    settings_text,
    system,
    torch_build,
    xpu_smi,
)

PARSERS: tuple[Callable[[str], object], ...] = (
    access.parse_identity,
    amd_smi.parse,
    apple.parse_sysctl,
    apple.parse_version,
    apt_conf.parse_apt_conf,
    ascend_info.cann_version,
    ascend_info.parse,
    cdi.parse_spec,
    cnmon.parse,
    container_scope.parse_mountinfo,
    containers.parse_version,
    cpu.parse_cpuinfo,
    dists.parse_editable,
    dists.parse_head,
    dists.parse_pth,
    dists.parse_requires_txt,
    dists.parse_wheel_tags,
    dnf.applies_updates,
    dnf.parse_excludes,
    dnf.parse_locks,
    docker.endpoint_of,
    docker.parse_object,
    environment.cut_tokens,
    layout.parse_pyvenv_cfg,
    limits.parse_limits,
    memory.parse_meminfo,
    mindie.parse_config,
    model_files.condense_index,
    model_files.parse_config,
    model_files.parse_index,
    mounts.parse_mounts,
    npu_smi.parse,
    npu_smi_board.first_id,
    npu_smi_board.parse,
    npu_smi_failure.parse,
    packages.parse_dpkg_status,
    packages.parse_preferences,
    packages.parse_rpm_list,
    platform.parse_l4t,
    process_maps.condense,
    process_maps.parse,
    processes.parse_cmdline,
    processes.parse_parent,
    processes.container_of,
    rocm.parse_properties,
    rocm_smi.parse,
    settings_text.flatten_toml,
    system.parse_os_release,
    system.parse_start_time,
    torch_build.parse_version_file,
    xpu_smi.parse,
)
# Pieces that the parsers look for, so that texts reach beyond their first test.
PIECES = st.sampled_from(
    [
        *"[ ] { } ( ) \" ' \\ ; # // /* */ :: : = , ~ < > - -- --- 3 . 9 \0 \x1b[31m".split(" "),  # noqa: SIM905
        *["gfx_target_version 90402\n", "version_dir=", "npu-smi 1 Version: 1", "NPU ID : 1\n"],
        *["\n", "\n\n", "\r\n", "\t", "9" * 30, "ID=", "Package:", "Status: hold ok installed"],
        *[
            "Name:",
            "Version:",
            "Requires-Dist:",
            "Tag:",
            "#clear",
            "version =",
            "__version__ = '1'",
        ],
        *[
            "cuda: Optional[str] = None",
            "kind: nvidia.com/gpu",
            "name:",
            "processor : 1",
            "flags :",
        ],
        *["Max open files  ", "unlimited", "kB", "MemTotal:", "# R36 (release), REVISION: 4.3"],
        *['{"url": "file:///x", "dir_info": {"editable": true}}', "exclude=", "apply_updates ="],
        *["sk-", "hf_", "-m", "--x=1", "serve", "api_server", "trtllm-serve", "python"],
    ]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=30).map(" ".join))


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.__qualname__)
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
def test_never_raises(parser: Callable[[str], object], text: str) -> None:
    parser(text)


@settings(max_examples=150, deadline=None)
@given(
    engine=st.sampled_from(["vllm", "sglang", "llama.cpp", "tensorrt-llm", "lmdeploy", "tgi"]),
    argv=st.lists(st.one_of(st.text(max_size=20), PIECES), max_size=12).map(tuple),
)
def test_command_lines_never_raise(engine: str, argv: tuple[str, ...]) -> None:
    engine_names.engine_of(argv)
    launch_arguments.parse_arguments(engine, argv)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(path=st.text(max_size=40))
def test_paths_never_raise(tmp_path: Path, path: str) -> None:
    from doctor.probes.local import LocalHost
    from doctor.probes.recorded import RecordedHost
    from doctor.probes.rooted import RootedHost

    for host in (LocalHost(), RootedHost(str(tmp_path)), RecordedHost(str(tmp_path))):
        below = f"{tmp_path}/none/{path}"
        host.read_text(below)
        host.list_dir(below)
        host.real_path(below)
        host.stat(below)
        host.disk(below)
        host.link(below)
        host.local_path(below)
        host.get(below, "/info")


REPEATED = (
    "a",
    "[",
    "\n=",
    '"\\',
    "x-1:",
    "/*",
    "#",
    "a://",
    "Package: x\n\n",
    'name="',
    "1.",
    "- ",
)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.__qualname__)
def test_time_grows_with_the_text_and_no_faster(parser: Callable[[str], object]) -> None:
    for piece in REPEATED:
        text = piece * (100_000 // len(piece))
        # Once more where the collector of a large process came between: it does not do so thrice.
        assert any(_seconds(parser, text) < 2 for _ in range(3)), piece


def _seconds(parser: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    parser(text)
    return time.process_time() - start
