"""What files tell of Huawei Ascend: driver, firmware, CANN, operators, NNAL, device nodes.

Layouts: the toolkit moved with release 8.5 of CANN from ascend-toolkit/latest to cann/.
Sources: CANN installation guide; set_env.sh; Ascend/pytorch torch_npu/npu/utils.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Optional, TypeVar

from doctor.facts import AscendFacts, HostFacts, Missing, Reading, Version, missing, seen
from doctor.probes import access, ascend_info, files
from doctor.probes.host import Host
from doctor.probes.stated_version import version

T = TypeVar("T")

ROOT = "/usr/local/Ascend"
MANAGER = "/dev/davinci_manager"
_INSTALLED = "/etc/ascend_install.info"
_NODE = re.compile(r"davinci\d{1,5}|davinci_manager|devmm_svm|hisi_hdc")
_MODULE = re.compile(r"(?:drv|asdrv|davinci)_\w+")
_ROOT_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_ROOTS = ("cann", "ascend-toolkit/latest", "nnae/latest")
_VERSION_FILES = (
    *(
        f"{arch}-linux/ascend_{package}_install.info"
        for arch in ("aarch64", "x86_64")
        for package in ("toolkit", "nnae")
    ),
    "ascend_nnae_install.info",
    "opp/version.info",
    "runtime/version.info",
    "version.cfg",
)
_KERNELS = "opp/built-in/op_impl/ai_core/tbe/kernel"
_STATED = re.compile(r"\b\d{1,2}\.\d{1,2}(?:\.\w{1,12}){0,3}")
_SMALL = 1 << 16


def read(host: Host, environ: Mapping[str, str], around: HostFacts) -> AscendFacts:
    """Everything that is told without asking the driver."""
    driver = _driver_file(host, around)
    firmware = _told(host, f"{_install_root(host)}/firmware/version.info")
    root = _toolkit(host, environ)
    return AscendFacts(
        driver=_stated(driver, ascend_info.driver_version),
        firmware=_stated(firmware, ascend_info.firmware_version),
        firmware_range=_stated(driver, lambda told: told.get("compatible_version_fw") or None),
        cann=_cann(host, root),
        kernels=_kernels(host, root),
        nnal=_nnal(host, environ),
        nodes=access.open_nodes(host, read_nodes(host)),
    )


def read_nodes(host: Host) -> Reading[tuple[str, ...]]:
    """Paths of the driver's device nodes."""
    names = host.list_dir("/dev")
    if names.value is None:
        return files.relay(names)
    return seen(tuple(f"/dev/{name}" for name in names.value if _NODE.fullmatch(name)), "/dev")


def libraries(host: Host) -> tuple[str, ...]:
    """Folders of the driver's libraries; a container sets the loader's path in its shells only."""
    driver = f"{_install_root(host)}/driver/lib64"
    return (driver, f"{driver}/common", f"{driver}/driver", "/usr/local/dcmi")


def is_loaded(around: HostFacts) -> bool:
    """True if a module of the driver is loaded; their names differ between releases."""
    return any(_MODULE.fullmatch(name) for name in around.modules.value or ())


def _install_root(host: Host) -> str:
    told = _told(host, _INSTALLED).value or {}
    path = told.get("driver_install_path_param", "")
    return path.rstrip("/") if path.startswith("/") else ROOT


def _driver_file(host: Host, around: HostFacts) -> Reading[dict[str, str]]:
    """The driver's version file. Where its module runs, a file that is not there tells nothing.

    A container shows its host's modules: there the file is a matter of mounts.
    """
    told = _told(host, f"{_install_root(host)}/driver/version.info")
    contained = around.platform.value == "container"
    if told.is_absent and is_loaded(around) and not contained:
        return missing(Missing.NOT_READABLE, told.at)
    return told


def _told(host: Host, path: str) -> Reading[dict[str, str]]:
    text = host.read_text(path, _SMALL)
    return files.relay(text) if text.value is None else seen(ascend_info.stated(text.value), path)


def _stated(
    told: Reading[dict[str, str]], field: Callable[[dict[str, str]], Optional[T]]
) -> Reading[T]:
    if told.value is None:
        return files.relay(told)
    value = field(told.value)
    return missing(Missing.NOT_READABLE, told.at) if value is None else seen(value, told.at)


def _toolkit(host: Host, environ: Mapping[str, str]) -> Reading[str]:
    """The folder of CANN: that of the environment, else the usual places."""
    named = (environ[name].rstrip("/") for name in _ROOT_VARIABLES if environ.get(name))
    answer: Reading[str] = missing(Missing.NOT_THERE, ROOT)
    for path in (*named, *(f"{ROOT}/{place}" for place in _ROOTS)):
        real = host.real_path(path)
        if real.is_known:
            return seen(path, path)
        answer = answer if real.is_absent else real
    return answer


def _cann(host: Host, root: Reading[str]) -> Reading[Version]:
    if root.value is None:
        return files.relay(root)
    for path, text in _version_texts(host, root.value):
        found = ascend_info.cann_version(text)
        if found is not None:
            return seen(found, path)
    return missing(Missing.NOT_READABLE, root.value)


def _version_texts(host: Host, root: str) -> Iterator[tuple[str, str]]:
    for name in _VERSION_FILES:
        text = host.read_text(f"{root}/{name}", _SMALL)
        if text.value is not None:
            yield text.at, text.value


def _kernels(host: Host, root: Reading[str]) -> Reading[str]:
    """Chip families that operators are installed for, such as "ascend310p,ascend910b"."""
    if root.value is None:
        return files.relay(root)
    names = host.list_dir(f"{root.value}/{_KERNELS}")
    if names.value is None:
        return files.relay(names)
    families = [name for name in names.value if name.startswith("ascend")]
    found = ",".join(families)[:200]
    return seen(found, names.at) if found else missing(Missing.NOT_THERE, names.at)


def _nnal(host: Host, environ: Mapping[str, str]) -> Reading[Version]:
    """The version of ATB, which the folder that `latest` leads to is named after."""
    root = _atb_root(environ.get("ATB_HOME_PATH", ""))
    real = host.real_path(f"{root}/latest")
    if real.value is None:
        return files.relay(real)
    texts = [real.value, host.read_text(f"{root}/latest/version.info", _SMALL).value or ""]
    found = next((v for v in map(_named_version, texts) if v), None)
    return missing(Missing.NOT_READABLE, real.at) if found is None else seen(found, real.at)


def _atb_root(home: str) -> str:
    """The folder of ATB; its variable names a build inside of it (…/atb/latest/atb/cxx_abi_1)."""
    above = home.partition("/latest")[0]
    return above if above.endswith("/atb") and above.startswith("/") else f"{ROOT}/nnal/atb"


def _named_version(text: str) -> Optional[Version]:
    match = _STATED.search(text)
    return version(match[0], width=1) if match else None
