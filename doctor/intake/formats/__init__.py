"""Outputs of known tools, one file a format: `looks_like(text)` and `parse(text) -> Facts`.

Belongs here: what a tool printed, turned into facts. `looks_like` is cheap and looks
for the tool's own headings; `parse` takes any text, never raises and is linear in it.
"""

from doctor.intake.formats.registry import FORMATS, Format

__all__ = ["FORMATS", "Format"]
