"""The zipapp's program: facts of this machine as JSON on standard output.

Usage: python3 -I -S doctor.pyz [--python PATH]...
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.util import find_spec

from doctor.facts import Facts, to_wire
from doctor.probes.collect import Options, collect
from doctor.probes.local import this_machine

_USAGE = "usage: python3 -I -S doctor.pyz [--python PATH]..."
_NO_CTYPES = (
    "this python3 lacks the module ctypes, without which NVML cannot be asked: install the "
    "package python3 (Debian, Ubuntu) or python3-libs (Fedora, RHEL)"
)


def main(arguments: list[str]) -> int:
    """Print the facts; 2 for arguments that are none."""
    names, paths = arguments[::2], arguments[1::2]
    if len(names) != len(paths) or set(names) - {"--python"}:
        print(_USAGE, file=sys.stderr)
        return 2
    facts = collect(this_machine(), Options(pythons=tuple(paths)))
    print(json.dumps(to_wire(_with_notes(facts))))
    return 0


def _with_notes(facts: Facts) -> Facts:
    lacking = find_spec("_ctypes") is None
    return replace(facts, notes=(*facts.notes, _NO_CTYPES)) if lacking else facts
