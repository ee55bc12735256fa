"""The list of all formats, the most particular first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from doctor.facts import Facts
from doctor.intake.formats import (
    amd_smi,
    ascend_info,
    check_env,
    collect_env,
    command_line,
    conda_list,
    docker_info,
    docker_inspect,
    engine_log,
    kernel_log,
    kernel_modules,
    ldd,
    lscpu,
    lspci,
    memory,
    npu_smi,
    npu_smi_board,
    npu_smi_failure,
    nvcc,
    nvidia_files,
    nvidia_smi_csv,
    nvidia_smi_failure,
    nvidia_smi_list,
    nvidia_smi_query,
    nvidia_smi_table,
    os_release,
    packages,
    pip_freeze,
    pip_list,
    project_file,
    requirements,
    rocm_smi,
    rocminfo,
    topology,
    uname,
)


@dataclass(frozen=True)
class Format:
    """One kind of output. `loose` ones have no heading: tried only where nothing else fits."""

    name: str
    looks_like: Callable[[str], bool]
    parse: Callable[[str], Facts]
    loose: bool = False


FORMATS: tuple[Format, ...] = (
    Format("nvidia-smi -q", nvidia_smi_query.looks_like, nvidia_smi_query.parse),
    Format("nvidia-smi --query-gpu", nvidia_smi_csv.looks_like, nvidia_smi_csv.parse),
    Format("nvidia-smi", nvidia_smi_table.looks_like, nvidia_smi_table.parse),
    Format("nvidia-smi failure", nvidia_smi_failure.looks_like, nvidia_smi_failure.parse),
    Format("nvidia-smi -L", nvidia_smi_list.looks_like, nvidia_smi_list.parse),
    Format("topology matrix", topology.looks_like, topology.parse),
    Format("npu-smi info", npu_smi.looks_like, npu_smi.parse),
    Format("npu-smi board", npu_smi_board.looks_like, npu_smi_board.parse),
    Format("npu-smi failure", npu_smi_failure.looks_like, npu_smi_failure.parse),
    Format("Ascend version file", ascend_info.looks_like, ascend_info.parse),
    Format("amd-smi", amd_smi.looks_like, amd_smi.parse),
    Format("rocm-smi", rocm_smi.looks_like, rocm_smi.parse),
    Format("rocminfo", rocminfo.looks_like, rocminfo.parse),
    Format("collect_env", collect_env.looks_like, collect_env.parse),
    Format("check_env", check_env.looks_like, check_env.parse),
    Format("pip list", pip_list.looks_like, pip_list.parse),
    Format("conda list", conda_list.looks_like, conda_list.parse),
    Format("project file", project_file.looks_like, project_file.parse),
    Format("docker inspect", docker_inspect.looks_like, docker_inspect.parse),
    Format("docker info", docker_info.looks_like, docker_info.parse),
    Format("lscpu", lscpu.looks_like, lscpu.parse),
    Format("lspci", lspci.looks_like, lspci.parse),
    Format("os-release", os_release.looks_like, os_release.parse),
    Format("uname", uname.looks_like, uname.parse),
    Format("ldd --version", ldd.looks_like, ldd.parse),
    Format("nvcc --version", nvcc.looks_like, nvcc.parse),
    Format("NVIDIA driver files", nvidia_files.looks_like, nvidia_files.parse),
    Format("kernel modules", kernel_modules.looks_like, kernel_modules.parse),
    Format("kernel log", kernel_log.looks_like, kernel_log.parse),
    Format("system packages", packages.looks_like, packages.parse),
    Format("memory", memory.looks_like, memory.parse),
    Format("command line", command_line.looks_like, command_line.parse),
    Format("pip freeze", pip_freeze.looks_like, pip_freeze.parse, loose=True),
    Format("requirements", requirements.looks_like, requirements.parse, loose=True),
    Format("log", engine_log.looks_like, engine_log.parse, loose=True),
)
