"""Extras of doctor that are not installed, and the command that adds one."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec


def how_to_add(extra: str) -> str:
    """The command that adds an extra to the environment that runs this.

    pip takes the doctor that is there; environments of uv have no pip in them.
    """
    python = shlex.quote(sys.executable or "python3")
    tool = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return f"{tool} 'llm-doctor[{extra}]'"
