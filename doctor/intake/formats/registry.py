"""The list of all formats, the most particular first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from doctor.facts import Facts
from doctor.intake.formats import (
    boot_line,
    check_env,
    collect_env,
    command_line,
    compose,
    conda_list,
    device_files,
    docker_config,
    docker_info,
    docker_inspect,
    dockerfile,
    engine_log,
    kernel_log,
    kernel_modules,
    kubectl_describe,
    kubernetes,
    ldd,
    lscpu,
    lspci,
    memory,
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
    python_version,
    requirements,
    rocminfo,
    shell_environment,
    shell_limits,
    sockets,
    system_summary,
    tegra_release,
    tool_versions,
    topology,
    uname,
)
from doctor.probes import (
    amd_smi,
    ascend_info,
    cnmon,
    npu_smi,
    npu_smi_board,
    npu_smi_failure,
    rocm_smi,
    xpu_smi,
)


@dataclass(frozen=True)
class Format:
    """One kind of output. `marks` are literals of which it has at least one.

    `loose` ones have no heading: they are tried only where nothing else fits. `long` ones
    are read beyond the size that others have.
    """

    name: str
    looks_like: Callable[[str], bool]
    parse: Callable[[str], Facts]
    marks: tuple[str, ...] = ()
    loose: bool = False
    long: bool = False

    def fits(self, text: str) -> bool:
        """Tell whether a text holds this format."""
        marked = not self.marks or any(mark in text for mark in self.marks)
        return marked and self.looks_like(text)


def _strict(name: str, module: Any, *marks: str) -> Format:
    return Format(name, module.looks_like, module.parse, marks)


def _long(name: str, module: Any, *marks: str) -> Format:
    return Format(name, module.looks_like, module.parse, marks, long=True)


def _loose(name: str, module: Any) -> Format:
    return Format(name, module.looks_like, module.parse, loose=True)


FORMATS: tuple[Format, ...] = (
    _strict("nvidia-smi -q", nvidia_smi_query, "NVSMI LOG", "<nvidia_smi_log>"),
    _strict("nvidia-smi --query-gpu", nvidia_smi_csv, *nvidia_smi_csv.TELLING),
    _strict("nvidia-smi", nvidia_smi_table, "NVIDIA-SMI "),
    _strict("nvidia-smi failure", nvidia_smi_failure, *nvidia_smi_failure.MARKS),
    _strict("nvidia-smi -L", nvidia_smi_list, "(UUID: GPU-"),
    _strict("topology matrix", topology, "GPU0\t", "NPU0\t", "GPU0 ", "NPU0 "),
    _strict("npu-smi info", npu_smi, "npu-smi "),
    _strict("npu-smi board", npu_smi_board, "NPU ID"),
    _strict("npu-smi failure", npu_smi_failure, *npu_smi_failure.MARKS),
    _strict("Ascend version file", ascend_info, *ascend_info.MARKS),
    _strict("amd-smi", amd_smi, "AMD-SMI ", "AMDSMI Tool", "MARKET_NAME", '"market_name"', "BDF: "),
    _strict("rocm-smi", rocm_smi, "ROCm System Management Interface"),
    _strict("cnmon", cnmon, "CNMON "),
    _strict("xpu-smi", xpu_smi, "Device Information"),
    _strict("rocminfo", rocminfo, "HSA System Attributes", "HSA Agents"),
    _strict("collect_env", collect_env, "CUDA used to build PyTorch"),
    _strict("check_env", check_env, "\nPyTorch: "),
    _strict("pip list", pip_list, "Package ", "Version: ", '"version"'),
    _strict("conda list", conda_list, "# packages in environment at", "# Name "),
    _long("project file", project_file, "[[package]]", "[project]", "[tool.poetry"),
    _strict("Dockerfile", dockerfile, *dockerfile.MARKS),
    _strict("compose", compose, *compose.MARKS),
    _strict("Kubernetes", kubernetes, *kubernetes.MARKS),
    _strict("kubectl describe", kubectl_describe, *kubectl_describe.MARKS),
    _strict("docker inspect", docker_inspect, '"HostConfig"', '"RepoTags"'),
    _strict(
        "docker info", docker_info, "Server Version:", '"ServerVersion"', "Server:", "Runtimes:"
    ),
    _strict("docker settings", docker_config, *docker_config.MARKS),
    _strict("lscpu", lscpu, *lscpu.MARKS),
    _strict("lspci", lspci, "]: ", " controller: "),
    _strict("os-release", os_release, "PRETTY_NAME=", "VERSION_ID=", "Distributor ID:"),
    _strict("system summary", system_summary, *system_summary.MARKS),
    _strict("uname", uname, "Linux "),
    _strict("ldd --version", ldd, *ldd.MARKS),
    _strict("nvcc --version", nvcc, "Cuda compilation tools, release"),
    _strict("NVIDIA driver files", nvidia_files, *nvidia_files.MARKS),
    _strict("kernel modules", kernel_modules, *kernel_modules.MARKS),
    _long("kernel log", kernel_log, "NVRM: "),
    _long("system packages", packages, *packages.MARKS),
    _strict("memory", memory, *memory.MARKS),
    _strict("nv_tegra_release", tegra_release, "(release), REVISION:"),
    _strict("python --version", python_version, *python_version.MARKS),
    _strict("listening sockets", sockets, *sockets.MARKS),
    _strict("device nodes", device_files, *device_files.MARKS),
    _strict("tool versions", tool_versions, *tool_versions.MARKS),
    _strict("/proc/cmdline", boot_line, *boot_line.MARKS),
    _strict("environment variables", shell_environment, *shell_environment.MARKS),
    _strict("ulimit -a", shell_limits, *shell_limits.MARKS),
    _strict("command line", command_line, *command_line.MARKS),
    _loose("pip freeze", pip_freeze),
    _loose("requirements", requirements),
    _loose("log", engine_log),
)
