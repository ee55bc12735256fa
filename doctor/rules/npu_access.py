"""Rules about access to Ascend devices: rights, mounts, and who holds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.rules.decide import missed
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.npu import is_ascend
from doctor.rules.settings import applicable, settings
from doctor.rules.software import software

# What npu-smi and DCMI answer: the device is held by another container; start failed.
_MANAGER, _DRIVER = "/dev/davinci_manager", "/usr/local/Ascend/driver"
_BUSY = re.compile(r"-8020\b|device is used", re.IGNORECASE)
_NO_START = re.compile(r"-8005\b", re.IGNORECASE)
_CAPABILITIES = re.compile(
    r"CapEff\s*[:=]\s*(?:0x)?0+\b|\bcapabilit(?:y|ies)\b[^.;\n]{0,15}\bdrop\w{0,4}[^.;\n]{0,5}\ball\b|"
    r"--cap-drop[= ]all\b|\b(?:drops?|dropped|without) all (?:linux )?capabilities\b|"
    r"\ball (?:linux )?capabilities (?:are )?dropped\b",
    re.IGNORECASE,
)
_NOT_IN_GROUP = re.compile(
    r"\bnot (?:a member of|in|part of) (?:the )?(?:group )?HwHiAiUser\b"
    r"|\bnot in HwHiAiUser\b|\bHwHiAiUser\b[^.;]{0,20}\bnot (?:in|a member)",
    re.IGNORECASE,
)
_OTHER_USER = re.compile(
    r"\brunAsUser\W{1,3}(?!0\b)\d{1,9}\b|(?<=\s)--user[ =](?!0\b|root\b)[\w:]{1,20}|"
    r"\b(?:as|with) (?:uid|user id) (?!0\b)\d{1,9}\b",
    re.IGNORECASE,
)
_GROUP_GIVEN = re.compile(r"HwHiAiUser|fsGroup|supplementalGroups|--group-add", re.IGNORECASE)
_NO_OPTIONS = re.compile(
    r"\b(?:no|without|missing|lacks?)(?: any| the)? (?:--device\b(?! ?/)|devices?\b(?! /)|"
    r"ascend[ -](?:docker[ -])?runtime)|\bascend[ -](?:docker[ -])?runtime (?:is )?(?:not|missing)",
    re.IGNORECASE,
)
_ABSENT = re.compile(
    r"\b(?:no|without|missing|lacks)\s+(?:the\s+)?(?:(?:--device|-v|--volume|--mount)[ =])?"
    r"((?:/dev/|/usr/local/Ascend/|/usr/local/dcmi)\S*)"
)
_UNMOUNTED = re.compile(
    r"((?:/dev/(?:davinci|devmm_svm|hisi_hdc)|/usr/local/(?:Ascend/driver|dcmi))\S*) "
    r"(?:(?:is|are|was|were) )?(?:not|never) (?:been )?(?:passed|mounted|mapped|there|bound)"
)
_NODE = re.compile(r"/dev/(?:davinci|devmm_svm|hisi_hdc)\w*|/usr/local/(?:Ascend/driver|dcmi)\S*|"
                   r"libascend_hal\.so|libdrvdsmi_host\.so")  # fmt: skip
_MODE = re.compile(r"\bmode\s*0?([0-7]{3})\b|\b0?([0-7]{3}) (?:\d+|\w+):(?:\d+|\w+)", re.IGNORECASE)


@rule("NPU201", cause="npu-permission", severity=Severity.ERROR)
def npu_nodes_not_accessible(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The process may not open the NPU's device nodes.

    What: the nodes that were found, the rights on them, and the capabilities of the
        process: root without CAP_DAC_OVERRIDE is bound by modes like anyone else.
    Why: DCMI answers -8005 and torch_npu finds no device.
    How to fix: add the user to HwHiAiUser; in a container give the group of the nodes, or
        CAP_DAC_OVERRIDE.
    Silent when: rights and capabilities were not looked at.
    Sources: Project-HAMi/ascend-device-plugin issue 139; capabilities(7).
    """
    is_ascend(case, matrix)
    nodes = case.facts.ascend.nodes
    runtime = case.scope.runtime.value or ""
    if nodes.missing is Missing.NOT_PERMITTED:
        yield _no_access(case, f"the nodes may not be opened ({nodes.at})")
    elif _CAPABILITIES.search(runtime) and _is_closed_to_others(runtime):
        yield _no_access(case, "no capabilities, and the nodes are closed to others")
    elif _NOT_IN_GROUP.search(f"{runtime} {' '.join(case.facts.notes)}"):
        yield _no_access(case, "the user is not in the group HwHiAiUser")
    elif (user := _OTHER_USER.search(runtime)) and not _GROUP_GIVEN.search(runtime):
        fault = _no_access(case, f"{user[0]} is not in the group that owns the nodes")
        yield replace(fault, severity=Severity.WARNING)
    elif case.scope.closed.value:
        yield replace(_no_access(case, case.scope.closed.value), severity=Severity.WARNING)
    elif not nodes.is_known and not runtime:
        raise MissingFact("ascend.nodes", nodes.missing or Missing.NOT_STATED)


def _is_closed_to_others(text: str) -> bool:
    if "crw-rw----" in text:
        return True
    modes = [match[1] or match[2] for match in _MODE.finditer(text)]
    return any(mode.endswith("0") for mode in modes)


def _no_access(case: Case, why: str) -> Fault:
    return Fault(
        f"the NPU cannot be opened: {why}",
        evidence=(Evidence(why, case.scope.runtime.at or case.facts.ascend.nodes.at),),
        remedies=(
            Remedy(
                "add the user to the group of the nodes", ("sudo usermod -aG HwHiAiUser $USER",)
            ),
            Remedy(
                "or give the container that group, or the capability",
                ("docker run --group-add HwHiAiUser ...", "docker run --cap-add DAC_OVERRIDE ..."),
            ),
        ),
    )


@rule("NPU202", cause="npu-permission", severity=Severity.ERROR)
def npu_driver_not_mounted(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The container lacks device nodes or folders of the host's NPU driver.

    What: the devices and mounts of the container against those that the engine's
        documentation asks for.
    Why: libascend_hal.so belongs to the host's driver and is not part of any image;
        without /dev/davinci_manager nothing can be opened.
    How to fix: the documented --device and -v options, or Ascend Docker Runtime.
    Silent when: the container's options are not known, or it runs with the Ascend runtime
        or privileged with its mounts. A warning where a whole command names none of them.
    Sources: vllm-ascend installation page (row in the matrix); vllm-ascend issue 1440.
    """
    is_ascend(case, matrix)
    runtime = case.scope.runtime.value or ""
    mounts = case.scope.mounts
    none = _NO_OPTIONS.search(runtime)
    if none and "/dev/davinci" not in runtime and "--privileged" not in runtime:
        yield replace(_lacking(case, [_MANAGER, _DRIVER], ()), severity=Severity.WARNING)
        return
    said = [*_ABSENT.findall(runtime), *_UNMOUNTED.findall(runtime), *missed(case, _NODE)]
    if said:
        yield _lacking(case, [text.rstrip(".,;)") for text in said], ())
        return
    if case.facts.host.platform.value == "container":
        yield from _absent_here(case)
        return
    if case.scope.kind != "container":
        raise NotApplicable("no container")
    given = case.scope.devices_visible
    if given.is_known and not given.partial and not given.value and not mounts.is_known:
        yield _lacking(case, [_MANAGER], ())
        return
    if not mounts.is_known and _is_without_npus(runtime):
        fault = _lacking(case, [_MANAGER, _DRIVER], ())
        yield replace(fault, severity=Severity.WARNING)
        return
    if not mounts.is_known and "--device" not in runtime:
        raise MissingFact("mounts of the container", mounts.missing or Missing.NOT_STATED)
    for match, absent in _not_handed(case, matrix):
        if absent:
            yield _lacking(case, absent, match.claim.source)


def _not_handed(case: Case, matrix: Matrix) -> Iterator[tuple[ClaimMatch, list[str]]]:
    """What the documentation asks for and the container was not given."""
    mounts = case.scope.mounts
    held = (*(mounts.value or ()), case.scope.runtime.value or "")
    found = software(matrix, "vllm-ascend", None)
    for match in applicable(matrix, found, "container", settings(case, matrix)[0], "device-nodes"):
        wanted = (*match.claim.data.get("devices", ()), *_driver_folders(match.claim.data))
        yield match, [w for w in wanted if not _is_held(w, held, mounts.is_known)]


def _is_without_npus(runtime: str) -> bool:
    """A whole command with options of its own, none of which hands over NPUs or their driver.

    Ascend Docker Runtime does both where it is named, or is the default of the engine.
    """
    options = set(_OPTION.findall(runtime))
    if "--gpus" in options and _RUN.search(runtime) and not _NODES_GIVEN.search(runtime):
        return True  # which hands over cards of NVIDIA
    is_whole = bool(_RUN.search(runtime)) and bool(options & {"-v", "--volume", "--privileged"})
    return is_whole and not _HANDED.search(runtime)


_RUN = re.compile(r"\b(?:docker|podman|nerdctl) run\b")
_OPTION = re.compile(r"(?<=\s)--?\w[\w-]{0,30}")
_NODES_GIVEN = re.compile(r"--device|ASCEND_|--runtime|--privileged|davinci|\.\.\.")
_HANDED = re.compile(r"--device|/Ascend\b|ASCEND_|--runtime|davinci|npu-smi|dcmi|\.\.\.")


def _absent_here(case: Case) -> Iterator[Fault]:
    """What this container lacks, seen from inside of it: the manager's node, or the driver."""
    ascend = case.facts.ascend
    absent = []
    if ascend.nodes.missing is not Missing.NOT_PERMITTED:
        absent = [] if _MANAGER in ascend.nodes.known("ascend.nodes") else [_MANAGER]
    if ascend.driver.is_absent:
        absent.append(_DRIVER)
    if absent:
        at = ascend.driver.at if ascend.driver.is_absent else ascend.nodes.at
        yield _lacking(case, absent, (), at)


def _lacking(case: Case, absent: list[str], sources: tuple[str, ...], at: str = "") -> Fault:
    at = at or case.scope.mounts.at or case.scope.runtime.at
    return Fault(
        f"the container lacks {', '.join(absent)}",
        evidence=(Evidence(f"{len(absent)} missing", at),),
        remedies=(Remedy("give it devices and driver", _options(absent)),),
        sources=sources,
    )


def _driver_folders(data: dict[str, object]) -> list[str]:
    listed = data.get("mounts", ())
    return [str(m) for m in listed if "driver" in str(m)] if isinstance(listed, list) else []


def _is_held(path: str, held: tuple[str, ...], complete: bool) -> bool:
    """A device is stated by its name; folders only count as absent where mounts were read."""
    name = path.rpartition("/")[2].removesuffix("N")
    if path.startswith("/dev/"):
        return any(name in text for text in held) or name == "davinci"
    parts = path.split("/")
    return not complete or any("/".join(parts[:n]) in held for n in range(2, len(parts) + 1))


def _options(absent: list[str]) -> tuple[str, ...]:
    devices = [f"--device {path}" for path in absent if path.startswith("/dev/")]
    folders = [f"-v {path}:{path}:ro" for path in absent if not path.startswith("/dev/")]
    return (f"docker run {' '.join((*devices, *folders))} ...",)


@rule("NPU203", cause="npu-device-busy", severity=Severity.ERROR)
def npu_held_by_another(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Another container or process holds the NPU.

    What: what npu-smi or DCMI answered (-8020), and processes on the devices wanted.
    Why: a device is given to one container at a time; a second start is refused.
    How to fix: stop the other container, or choose another device.
    Silent when: npu-smi answered well. An answer of -8005, which has several reasons, is
        a warning; so is other work on the device of which somebody tells, and a container that
        was given nodes and driver by name and in which npu-smi is told to see none.
    Sources: Ascend/cann-container-image issue 46; DCMI error codes.
    """
    is_ascend(case, matrix)
    error = case.facts.ascend.smi_error
    told = next((d.processes.value for d in case.devices if d.processes.at == "notes"), None)
    if told and not error.is_known:
        yield _held_by(told[0].name)
        return
    if error.is_absent:
        return
    if not error.is_known and _is_handed_and_unseen(case, matrix):
        yield _held_by("the container was given all that is asked for, and sees no NPU")
        return
    text = error.known("ascend.smi_error")
    sure = _BUSY.search(text)
    if sure or _NO_START.search(text):
        yield Fault(
            "another container holds the NPU"
            if sure
            else "DCMI did not start: the NPU is held, closed to this user, or needs a reboot",
            evidence=(Evidence(text[:200], error.at),),
            remedies=(
                Remedy(
                    "find the other user of the device, and stop it or take another device",
                    ("npu-smi info", "docker ps"),
                ),
            ),
            severity=None if sure else Severity.WARNING,
        )


def _is_handed_and_unseen(case: Case, matrix: Matrix) -> bool:
    """A container with nodes, managers and driver by name, in which npu-smi sees nothing."""
    runtime = case.scope.runtime.value or ""
    told = any(_UNSEEN.search(text) for text in (runtime, *case.facts.notes))
    is_handed = "driver" in runtime and "--privileged" not in runtime
    is_handed = is_handed and re.search(r"--device[= ]/dev/davinci\d", runtime) is not None
    return told and is_handed and not any(absent for _, absent in _not_handed(case, matrix))


_UNSEEN = re.compile(
    r"\bnpu-smi\b[^.;\n]{0,40}\b(?:does not|doesn't|cannot|can't|fails? to|did not|not)\b"
    r"[^.;\n]{0,20}\b(?:get|see|find|show|list|detect|initiali[sz]e)\b",
    re.IGNORECASE,
)


def _held_by(who: str) -> Fault:
    return Fault(
        f"other work holds the NPU: {who}",
        evidence=(Evidence(who, "notes"),),
        remedies=(
            Remedy(
                "stop it, or give each container devices of its own",
                ("npu-smi info", "docker ps"),
            ),
        ),
        severity=Severity.WARNING,
    )


RULES = (npu_nodes_not_accessible, npu_driver_not_mounted, npu_held_by_another)
