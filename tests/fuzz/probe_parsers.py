"""Parsers of probes: each gets the recorded texts of which it makes something."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

from doctor.facts import Reading, seen
from doctor.probes import (
    containers,
    dcmi_answers,
    engine_names,
    launch_arguments,
    nvidia_driver,
    nvidia_kernel_log,
    nvidia_libraries,
    nvidia_module,
    nvidia_services,
    nvidia_smi,
    nvidia_toolkits,
    nvml_answers,
    packages,
    pci,
    ports,
    settings_text,
    stated_version,
)
from doctor.probes.host import CommandResult
from tests.fuzz.parser import Parser
from tests.probes.test_parsers_never_raise import PARSERS

TESTS = Path(__file__).parent.parent
_LARGEST, _MOST_SEEDS = 60_000, 20


def _of_reading(parse: Callable[[Reading[str]], object]) -> Callable[[str], object]:
    return lambda text: parse(seen(text, "/x"))


def _of_document(parse: Callable[[Reading[dict[str, object]]], object]) -> Callable[[str], object]:
    """A parser of an object: what is no object does not reach it."""

    def run(text: str) -> object:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return parse(seen(document, "x")) if isinstance(document, dict) else None

    return run


def _command_line(text: str) -> object:
    argv = tuple(text.split())
    engine = engine_names.engine_of(argv) or "vllm"
    return launch_arguments.parse_arguments(engine, argv), launch_arguments.hide_secrets(argv)


_MORE: dict[str, Callable[[str], object]] = {
    "dcmi": _of_document(dcmi_answers.parse),
    "nvml": _of_document(nvml_answers.parse_answers),
    "command line": _command_line,
    "loaded driver": _of_reading(nvidia_driver.parse_version),
    "flavour": _of_reading(nvidia_driver.parse_flavour),
    "kernel log": nvidia_kernel_log.parse_log,
    "ld.so.conf": nvidia_libraries.parse_conf,
    "modinfo": _of_reading(nvidia_module.parse),
    "nvidia-smi": lambda text: nvidia_smi.parse_rows(CommandResult(0, text, "")),
    "nvidia tools": nvidia_services.parse_stated,
    "package": nvidia_services.parse_upstream,
    "containerd": lambda text: containers.parse_containerd(settings_text.flatten_toml(text)),
    "CUDA version.txt": nvidia_toolkits.parse_version_text,
    "holds": packages.parse_holds,
    "cuda.h": nvidia_toolkits.parse_header,
    "version.json": nvidia_toolkits.parse_version_json,
    "uevent": lambda text: pci.parse_uevent("0000:01:00.0", text),
    "ports": ports.parse_listening,
    "stated version": stated_version.version,
}
_ALL = {**{parser.__module__ + "." + parser.__name__: parser for parser in PARSERS}, **_MORE}


_DOCUMENTS = ("h100x2-580/nvml.json", "a100-mig/nvml.json", "ascend-910b3x8/dcmi.json")


@lru_cache(maxsize=1)
def _corpus() -> tuple[str, ...]:
    """Texts that probes read: one of each file and output that recorded hosts have, samples."""
    found: dict[str, str] = {}
    for path in sorted(TESTS.glob("hosts/*/files/**/*")):
        if path.is_file():
            found.setdefault(str(path).partition("/files/")[2], path.read_text(errors="replace"))
    for path in sorted(TESTS.glob("hosts/*/commands.json")):
        for entry in json.loads(path.read_text()):
            out = entry.get("stdout", "")
            text = "\n".join(out) if isinstance(out, list) else out
            found.setdefault(" ".join(entry["argv"]), text)
    for pattern in ("intake/samples/*smi*", "intake/samples/ascend/*", "intake/samples/cnmon.txt"):
        found |= {str(p): p.read_text() for p in TESTS.glob(pattern) if p.is_file()}
    found |= {name: (TESTS / "hosts" / name).read_text() for name in _DOCUMENTS}
    texts = [text for _, text in sorted(found.items())]
    random.Random(20261129).shuffle(texts)  # noqa: S311 - the same order
    return (*_WRITTEN, *texts)


# Shapes of which no recorded host has one.
_WRITTEN = (
    "/v/bin/python3 /v/bin/vllm serve org/m --tensor-parallel-size 2 --api-key k -cc.x=1",
    '{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}',
    "CUDA Version 10.2.89\n",
    '[plugins."io.containerd.grpc.v1.cri".containerd]\ndefault_runtime_name = "nvidia"\n'
    "[plugins.cri.containerd.runtimes.nvidia.options]\nSystemdCgroup = true\n",
    "#define CUDA_VERSION 12080",
    "  sl  local_address rem_address st\n 0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0\n",
    "1 2 0:1 / / rw - overlay overlay rw\n3 1 8:1 /m /models ro - ext4 /dev/sda rw\n",
    "7f00-7f01 r--p 00000000 08:01 99 /usr/lib/libcuda.so.1 (deleted)\n",
    '{"metadata": {"total_size": 9}, "weight_map": {"a": "m-1.safetensors"}}',
    '{"architectures": ["X"], "text_config": {"hidden_size": 9}, "quantization_config": {}}',
    '{"BackendConfig": {"ModelDeployConfig": {"maxSeqLen": 9, "ModelConfig": [{"worldSize": 1}]}}}',
    "machdep.cpu.brand_string: Apple M3\nhw.memsize: 137438953472\n",
    "<key>ProductVersion</key>\n<string>15.2</string>",
    "[ 1.0] NVRM: Xid (PCI:0000:18:00): 79, pid=7, GPU has fallen off the bus.\n",
    "NVIDIA Container Toolkit CLI version 1.17.4\n",
    '{"url": "file:///src/x", "dir_info": {"editable": true}}',
    "Wheel-Version: 1.0\nTag: cp312-cp312-manylinux_2_28_x86_64\nTag: py3-none-any\n",
    "[commands]\nupgrade_type = default\napply_updates = yes\n",
    "[main]\nexcludepkgs=nvidia* kernel*,\n  cuda*\n",
    '{"Name": "far", "Endpoints": {"docker": {"Host": "tcp://10.0.0.1:2375"}}}',
    "Package: nvidia-*\nPin: version 580.*\nPin-Priority: 1001\n",
    f"0::/system.slice/docker-{'ab12' * 16}.scope\n",
    'Bind { a::b "c"; d { "e"; }; };\nAPT::Periodic::Unattended-Upgrade "1";\n',
)


def _seeds(name: str) -> tuple[str, ...]:
    """Texts of which the parser makes something: others would be refused at once."""
    empty, found = _ALL[name](""), list[str]()
    for text in _corpus():
        if len(text) < _LARGEST and _ALL[name](text) != empty:
            found.append(text)
        if len(found) == _MOST_SEEDS:
            break
    return tuple(found)


PROBES = tuple(
    Parser(f"probe {name}", read, partial(_seeds, name), refusals=()) for name, read in _ALL.items()
)
