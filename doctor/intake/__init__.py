"""What a person hands over, turned into facts: one file per format.

Belongs here: snapshots, field reports, case files, pasted outputs of known tools.
Does not belong here: asking a machine (probes/), judging (rules/), compatibility
knowledge (matrix/). Odd values never raise: they become notes.
"""

from doctor.intake.detect import Understood, parse_input, read_input

__all__ = ["Understood", "parse_input", "read_input"]
