"""Versions of the NVIDIA driver's parts that a field report tells of in a sentence."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import NvidiaFacts, Reading, Version, seen
from doctor.intake.stated import Stated, driver_version

_NUMBER = r"(?<!\d)(?<!\d\.)(\d{3}\.\d{2,3}(?:\.\d{2})?)(?![\w.]*\d)"
_GAP = r"[^;,\n]{0,40}?"
_LIBRARIES = (
    re.compile(
        r"(?:\bNVML\b|\blibcuda(?:\.so\b)?|\blibnvidia-(?:ml|compute|cfg1?)[\w-]{0,12}(?:\.so\.)?|"
        r"\bnvidia-utils[\w-]{0,12}|\b(?:driver|nvidia) librar(?:y|ies)|\buser-?space|"
        rf"\bthe client has the version){_GAP}{_NUMBER}",
        re.I,
    ),
    # The volume of nvidia-docker 1, and an installer that left the kernel modules alone.
    re.compile(rf"\bnvidia_driver_{_NUMBER}"),
    re.compile(
        r"\bNVIDIA-Linux-\w{3,9}-(\d{3}\.\d{2,3}(?:\.\d{2})?)\b[^;\n]{0,60}--no-kernel-modules?\b"
    ),
    # Packages were upgraded, and the module of before is still loaded.
    re.compile(
        rf"\b(?:upgrad|updat|install)\w{{1,4}}[^;\n]{{0,60}}?{_NUMBER}[^;\n]{{0,60}}?"
        r"\b(?:no|not|without|before|until|pending|never)\b[^;\n]{0,20}\breboot",
        re.I,
    ),
)
_LOADED = (
    re.compile(
        rf"(?:/proc/driver/nvidia/version|\bkernel module|\bloaded module){_GAP}{_NUMBER}", re.I
    ),
)
_NONE_LISTED = re.compile(
    r"\bnvidia-smi\b[^.;\n]{0,25}\b(?:no devices?(?: were| was)?(?: found)?|"
    r"(?:finds?|lists?|shows?|sees?|says) no (?:nvidia )?(?:gpus?|devices?|cards?))\b",
    re.I,
)
_ON_DISK = (
    re.compile(rf"\bmodinfo\b{_GAP}{_NUMBER}", re.I),
    re.compile(rf"\bdkms\b[^;\n]{{0,30}}?\bnvidia[/, ]+{_NUMBER}[^;\n]{{0,80}}\binstalled\b", re.I),
)
# A copy for forward compatibility may differ; so may what somebody tried, or had in the past.
_ELSEWHERE = re.compile(
    r"\bcompat\b|\bdowngrad|\bworks? with\b|\bfixed\b|\btried\b|\bwas on\b", re.I
)


def with_told_drivers(nvidia: NvidiaFacts, report: Stated) -> NvidiaFacts:
    """Fill parts of the driver that have no version yet from notes and the container's text."""
    texts = [("notes", note) for note in report.strings("notes")]
    texts.append(("container.text", report.table("container").text("text")))
    texts = [(at, text) for at, text in texts if not _ELSEWHERE.search(text)]
    return replace(
        nvidia,
        driver=_or_told(nvidia.driver, texts, _LOADED),
        module_on_disk=_or_told(nvidia.module_on_disk, texts, _ON_DISK),
        userspace=_or_told(nvidia.userspace, texts, _LIBRARIES),
        nvml_devices=_listed(nvidia, texts),
    )


def _listed(nvidia: NvidiaFacts, texts: list[tuple[str, str]]) -> Reading[int]:
    """How many GPUs the driver lists, where somebody says that nvidia-smi has none."""
    told = next((at for at, text in texts if _NONE_LISTED.search(text)), "")
    return seen(0, told) if told and not nvidia.nvml_devices.is_known else nvidia.nvml_devices


def _or_told(
    stated: Reading[Version], texts: list[tuple[str, str]], words: tuple[re.Pattern[str], ...]
) -> Reading[Version]:
    if stated.is_known:
        return stated
    found = ((at, p.search(text)) for at, text in texts for p in words)
    told = ((at, driver_version(match[1])) for at, match in found if match)
    return next((seen(v, at, partial=True) for at, v in told if v is not None), stated)
