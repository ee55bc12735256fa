"""What a person hands over, turned into facts: one file per format.

Belongs here: snapshots, field reports, case files, pasted outputs of known tools.
Does not belong here: asking a machine (probes/), judging (rules/), compatibility
knowledge (matrix/). Odd values never raise: they become notes.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doctor.intake.detect import Understood, parse_input, read_input

__all__ = ["Understood", "parse_input", "read_input"]


def __getattr__(name: str) -> Any:
    """Load all formats only for those who read one: a host in one line needs none of them."""
    if name in __all__:
        from doctor.intake import detect

        return getattr(detect, name)
    raise AttributeError(name)
