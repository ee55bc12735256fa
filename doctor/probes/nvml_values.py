"""Single answers of NVML turned into readings. Pure; the text of `at` keeps the error code.

A feature that a card does not have (NVML's NOT_SUPPORTED) is absent. Memory is no
feature: a card that will not tell it, because it shares the host's, leaves it unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, TypeVar

from doctor.facts import ComputeCapability, Missing, Reading, Version, missing, seen

T = TypeVar("T")

_REASONS = {3: Missing.NOT_THERE, 4: Missing.NOT_PERMITTED, 10: Missing.TIMED_OUT}
_ODD = (TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError)
_LONGEST = 200


def error_code(answer: Any) -> Optional[int]:
    """The error code of an answer, or None if it is a value."""
    code = answer.get("error") if isinstance(answer, dict) else None
    return natural(code)


def refusal(code: int, at: str) -> Reading[Any]:
    """The missing reading that stands for an error code."""
    return missing(_REASONS.get(code, Missing.NOT_READABLE), f"{at}: error {code}")


def reading(answer: Any, at: str, convert: Callable[[Any], Optional[T]]) -> Reading[T]:
    """The converted answer; what cannot be converted is not readable."""
    code = error_code(answer)
    if code is not None:
        return refusal(code, at)
    try:
        value = None if answer is None else convert(answer)
    except _ODD:
        value = None
    return missing(Missing.NOT_READABLE, at) if value is None else seen(value, at)


def value(answer: Any, convert: Callable[[Any], Optional[T]]) -> Optional[T]:
    """The converted answer, or None."""
    return reading(answer, "", convert).value


def records(answer: Any) -> list[dict[str, Any]]:
    """The objects of a list; nothing of what is not one."""
    return [item for item in answer if isinstance(item, dict)] if isinstance(answer, list) else []


def natural(answer: Any) -> Optional[int]:
    """A number from 0 upwards."""
    plain = isinstance(answer, int) and not isinstance(answer, bool)
    return answer if plain and answer >= 0 else None


def mebibytes(answer: Any) -> Optional[int]:
    """Bytes in MiB; NVML marks what it does not know with all bits set."""
    number = natural(answer)
    return number >> 20 if number is not None and number < 1 << 60 else None


def words(answer: Any) -> Optional[str]:
    """Text that is not empty."""
    return (answer.strip()[:_LONGEST] or None) if isinstance(answer, str) else None


def version(answer: Any) -> Optional[Version]:
    """A driver's version."""
    return Version.maybe(words(answer))


def cuda_version(answer: Any) -> Optional[Version]:
    """CUDA's number: thousands are the major, tens the minor."""
    number = natural(answer)
    return Version(f"{number // 1000}.{number % 1000 // 10}") if number else None


def capability(answer: Any) -> ComputeCapability:
    """A pair of numbers."""
    major, minor = answer
    return ComputeCapability.parse(f"{major}.{minor}")


def pci_address(answer: Any) -> Optional[str]:
    """A bus id as sysfs writes it: NVML has four zeros more at the start."""
    domain, bus, rest = answer.lower().split(":")
    device, function = rest.split(".")
    numbers = [int(part, 16) for part in (domain, bus, device, function)]
    return "{:04x}:{:02x}:{:02x}.{:x}".format(*numbers)


def pci_pair(answer: Any) -> Optional[str]:
    """Vendor and device, of which NVML puts the vendor in the lower half."""
    number = natural(answer)
    return f"{number & 0xFFFF:04x}:{number >> 16 & 0xFFFF:04x}" if number else None
