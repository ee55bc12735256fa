"""What is asked of NVML, written down as it answers: numbers stay numbers, errors codes.

The document (`nvml.json` of a recorded host):

    {"init": 0, "driver": "...", "cuda": 13000, "count": 2,
     "devices": [{"index": 0, "name": ..., "memory": {"total": bytes, ...}, ...}],
     "links": [{"a": 0, "b": 1, "ancestor": 50, "p2p": 0}]}

Each answer is the value or {"error": code}. This runs in the child of `probes.nvml`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

_UNKNOWN = 999
_FUNCTION_NOT_FOUND = 13
_NVLINK_TO_GPU, _NVLINK_TO_SWITCH = 0, 2
_VIRTUAL = 2
_MOST_DEVICES, _MOST_PROCESSES = 64, 200
_RUNNING = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")

# Questions with one plain answer: key of the document, function, further arguments.
# An alternative stands below its first choice and is asked where that is not there.
_PLAIN: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("name", "nvmlDeviceGetName", ()),
    ("uuid", "nvmlDeviceGetUUID", ()),
    ("brand", "nvmlDeviceGetBrand", ()),
    ("minor", "nvmlDeviceGetMinorNumber", ()),
    ("capability", "nvmlDeviceGetCudaComputeCapability", ()),
    ("compute_mode", "nvmlDeviceGetComputeMode", ()),
    ("persistence", "nvmlDeviceGetPersistenceMode", ()),
    ("virtualization", "nvmlDeviceGetVirtualizationMode", ()),
    ("gsp", "nvmlDeviceGetGspFirmwareMode", ()),
    ("mig", "nvmlDeviceGetMigMode", ()),
    ("width", "nvmlDeviceGetCurrPcieLinkWidth", ()),
    ("width_max", "nvmlDeviceGetMaxPcieLinkWidth", ()),
    ("gen", "nvmlDeviceGetCurrPcieLinkGeneration", ()),
    ("gen_max", "nvmlDeviceGetMaxPcieLinkGeneration", ()),
    ("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", (1, 0)),  # uncorrected, since boot
    ("remapped", "nvmlDeviceGetRemappedRows", ()),
    ("retired_pending", "nvmlDeviceGetRetiredPagesPendingStatus", ()),
    ("throttle", "nvmlDeviceGetCurrentClocksEventReasons", ()),
    ("throttle", "nvmlDeviceGetCurrentClocksThrottleReasons", ()),
    ("temperature", "nvmlDeviceGetTemperature", (0,)),
    ("temperature", "nvmlDeviceGetTemperatureV", (0,)),
)


class _Nvml:
    """pynvml with errors as answers."""

    def __init__(self, pynvml: Any) -> None:
        self.module = pynvml

    def ask(self, function: str, *arguments: Any) -> Any:
        """The function's answer, or {"error": code}."""
        return self.attempt(lambda: getattr(self.module, function)(*arguments))

    def attempt(self, question: Callable[[], Any]) -> Any:
        """The answer to several calls of which the first error decides."""
        try:
            answer = question()
        except self.module.NVMLError as error:
            return {"error": error.value}
        except AttributeError:  # a pynvml that does not know the function
            return {"error": _FUNCTION_NOT_FOUND}
        except Exception:  # text that cannot be decoded, structures that moved
            return {"error": _UNKNOWN}
        return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


def ask_all(pynvml: Any) -> dict[str, Any]:
    """Ask everything once; a refusal of the library itself is the document's `init`."""
    nvml = _Nvml(pynvml)
    refused = failed(nvml.ask("nvmlInit"))
    if refused is not None:
        return {"init": refused}
    count = nvml.ask("nvmlDeviceGetCount")
    number = min(count, _MOST_DEVICES) if failed(count) is None else 0
    handles = [nvml.ask("nvmlDeviceGetHandleByIndex", index) for index in range(number)]
    return {
        "init": 0,
        "driver": nvml.ask("nvmlSystemGetDriverVersion"),
        "nvml": nvml.ask("nvmlSystemGetNVMLVersion"),
        "cuda": nvml.ask("nvmlSystemGetCudaDriverVersion_v2"),
        "count": count,
        "devices": [_device(nvml, index, handle) for index, handle in enumerate(handles)],
        "links": list(_links(nvml, handles)),
    }


def failed(answer: Any) -> Optional[int]:
    """The error code of an answer, or None if it is a value."""
    return answer["error"] if isinstance(answer, dict) and "error" in answer else None


def _device(nvml: _Nvml, index: int, handle: Any) -> dict[str, Any]:
    code = failed(handle)
    if code is not None:
        return {"index": index, "error": code}
    found: dict[str, Any] = {"index": index}
    for key, function, arguments in _PLAIN:
        if failed(found.get(key, {"error": _FUNCTION_NOT_FOUND})) == _FUNCTION_NOT_FOUND:
            found[key] = nvml.ask(function, handle, *arguments)
    found["pci"] = nvml.attempt(lambda: _pci(nvml.module, handle))
    found["memory"] = nvml.attempt(lambda: _memory(nvml.module, handle))
    found["processes"] = nvml.attempt(lambda: _processes(nvml, handle))
    found["fabric"] = nvml.attempt(lambda: _fabric(nvml.module, handle))
    found["nvlink"] = nvml.attempt(lambda: _nvlink(nvml, handle))
    if isinstance(found["mig"], (list, tuple)) and found["mig"][0]:
        found["instances"] = nvml.attempt(lambda: _instances(nvml, handle))
    if found["virtualization"] == _VIRTUAL:
        found["licensed"] = nvml.attempt(lambda: _licensed(nvml.module, handle))
    return found


def _pci(pynvml: Any, handle: Any) -> dict[str, Any]:
    pci = pynvml.nvmlDeviceGetPciInfo(handle)
    return {"bus": _text(pci.busId), "id": pci.pciDeviceId, "subsystem": pci.pciSubSystemId}


def _memory(pynvml: Any, handle: Any) -> dict[str, int]:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return {"total": memory.total, "free": memory.free, "used": memory.used}


def _processes(nvml: _Nvml, handle: Any) -> list[dict[str, Any]]:
    """Processes with a context, those that only draw included: both hold memory."""
    answers = [_running(nvml, handle, function) for function in _RUNNING]
    refused = failed(answers[0])
    if refused is not None:
        raise nvml.module.NVMLError(refused)
    found: dict[int, Any] = {}
    for processes in answers:
        for process in processes if failed(processes) is None else ():
            found.setdefault(process.pid, process.usedGpuMemory)
    listed = sorted(found.items())[:_MOST_PROCESSES]
    return [{"pid": p, "memory": m, "name": _process_name(nvml, p)} for p, m in listed]


def _running(nvml: _Nvml, handle: Any, function: str) -> Any:
    """The newest form that the library knows; pynvml's unversioned name does not fall back."""
    answer = nvml.ask(f"{function}_v3", handle)
    if failed(answer) == _FUNCTION_NOT_FOUND:
        answer = nvml.ask(f"{function}_v2", handle)
    return answer


def _process_name(nvml: _Nvml, pid: int) -> str:
    """The program's own name only: arguments may hold secrets, folders a person's name."""
    name = nvml.ask("nvmlSystemGetProcessName", pid)
    return name.split("\0")[0].split(" ")[0].rsplit("/", 1)[-1] if isinstance(name, str) else ""


def _fabric(pynvml: Any, handle: Any) -> dict[str, int]:
    from ctypes import byref

    try:
        info = pynvml.c_nvmlGpuFabricInfoV_t()
        pynvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(info))
        return {"state": info.state, "status": info.status, "health": info.healthMask}
    except (AttributeError, pynvml.NVMLError_FunctionNotFound):
        info = pynvml.c_nvmlGpuFabricInfo_t()
        pynvml.nvmlDeviceGetGpuFabricInfo(handle, byref(info))
        return {"state": info.state, "status": info.status}


def _nvlink(nvml: _Nvml, handle: Any) -> dict[str, Any]:
    """How many NVLinks are up and down, and where those that are up lead."""
    found: dict[str, Any] = {"active": 0, "inactive": 0, "switch": 0, "peers": {}}
    for link in range(nvml.module.NVML_NVLINK_MAX_LINKS):
        state = nvml.ask("nvmlDeviceGetNvLinkState", handle, link)
        code = failed(state)
        if code is not None:
            if link == 0:
                raise nvml.module.NVMLError(code)
            break
        found["active" if state else "inactive"] += 1
        if state:
            _follow(nvml, handle, link, found)
    return found


def _follow(nvml: _Nvml, handle: Any, link: int, found: dict[str, Any]) -> None:
    kind = nvml.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
    if kind == _NVLINK_TO_SWITCH:
        found["switch"] += 1
        return
    remote = nvml.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
    if failed(remote) is None and kind in (_NVLINK_TO_GPU, {"error": _FUNCTION_NOT_FOUND}):
        bus = _text(remote.busId)
        found["peers"][bus] = found["peers"].get(bus, 0) + 1


def _instances(nvml: _Nvml, handle: Any) -> list[dict[str, Any]]:
    found = []
    for number in range(nvml.module.nvmlDeviceGetMaxMigDeviceCount(handle)):
        instance = nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        if failed(instance) is None:
            found.append(_instance(nvml, number, instance))
    return found


def _instance(nvml: _Nvml, number: int, instance: Any) -> dict[str, Any]:
    return {
        "number": number,
        "name": nvml.ask("nvmlDeviceGetName", instance),
        "uuid": nvml.ask("nvmlDeviceGetUUID", instance),
        "memory": nvml.attempt(lambda: _memory(nvml.module, instance)),
        "slices": nvml.attempt(lambda: _slices(nvml.module, instance)),
        "processes": nvml.attempt(lambda: _processes(nvml, instance)),
    }


def _slices(pynvml: Any, instance: Any) -> dict[str, int]:
    found = pynvml.nvmlDeviceGetAttributes(instance)
    return {
        "gpu": found.gpuInstanceSliceCount,
        "compute": found.computeInstanceSliceCount,
        "memory_mib": found.memorySizeMB,
    }


def _licensed(pynvml: Any, handle: Any) -> bool:
    """Whether any licensable feature of a virtual GPU is licensed."""
    features = pynvml.nvmlDeviceGetGridLicensableFeatures(handle)
    listed = features.gridLicensableFeatures[: features.licensableFeaturesCount]
    return any(feature.featureState for feature in listed)


def _links(nvml: _Nvml, handles: list[Any]) -> Any:
    """Every pair: nearest common ancestor, and whether one can read the other's memory."""
    usable = [(index, h) for index, h in enumerate(handles) if failed(h) is None]
    for place, (a, first) in enumerate(usable):
        for b, second in usable[place + 1 :]:
            yield {
                "a": a,
                "b": b,
                "ancestor": nvml.ask("nvmlDeviceGetTopologyCommonAncestor", first, second),
                "p2p": nvml.ask("nvmlDeviceGetP2PStatus", first, second, 0),
            }


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
