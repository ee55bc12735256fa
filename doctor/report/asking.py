"""Which command tells a fact that nobody stated: what to hand over so that doctor can decide."""

from __future__ import annotations

from doctor.findings import Outcome, OutcomeKind, TargetDiagnosis

# By the last words of a fact's name; names of devices and versions stand before them.
_COMMANDS = (
    ("nvidia.nvml_devices", "nvidia-smi -L"),
    ("devices", "nvidia-smi -L, npu-smi info or lspci -nn"),
    ("nvidia.driver", "nvidia-smi"),
    ("nvidia.cuda_driver_api", "nvidia-smi"),
    ("ascend.driver", "npu-smi info"),
    ("ascend.cann", "cat /usr/local/Ascend/ascend-toolkit/latest/version.cfg"),
    ("rocm.version", "amd-smi version"),
    ("SoC name", "npu-smi info -t board -i 0"),
    (".compute_capability", "nvidia-smi --query-gpu=name,compute_cap --format=csv"),
    (".pci_id", "lspci -nn"),
    ("host.arch", "uname -m"),
    ("glibc", "ldd --version"),
    ("python", "python3 --version"),
    ("torch", "pip list"),
    ("torch.hip", "pip list"),
    ("packages", "pip list"),
    ("the CUDA version of the installed build", "pip list, where torch is named +cuNNN"),
    ("GPU code of the installed build", "`doctor check` on the machine itself"),
    ("scope.binaries", "`doctor check` on the machine itself"),
)
_REASONS = {
    "not-there": "not there",
    "not-permitted": "no permission",
    "not-readable": "cannot be read",
    "timed-out": "no answer in time",
}


def deciding(target: TargetDiagnosis) -> list[str]:
    """Facts without which there is no verdict, each with why it is missing or what tells it."""
    unsure = [o for o in target.outcomes if o.gate and o.kind is OutcomeKind.CANNOT_TELL]
    reasons = {o.missing: o.reason for o in unsure}
    return [_asked(name, reason) for name, reason in reasons.items()]


def crashed(target: TargetDiagnosis) -> tuple[Outcome, ...]:
    """Rules whose own fault took their answer away."""
    return tuple(o for o in target.outcomes if o.kind is OutcomeKind.CRASHED)


def _asked(name: str, reason: str) -> str:
    why, _, at = reason.partition(" ")
    if why in _REASONS:
        return f"{name} ({_REASONS[why]}{': ' if at else ''}{at})"
    command = next((text for end, text in _COMMANDS if name.endswith(end)), "")
    if name.startswith("version of "):
        command = "pip list, or --engine NAME==VERSION"
    return f"{name} ({command})" if command else name
