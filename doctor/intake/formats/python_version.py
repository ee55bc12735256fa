"""`python --version`: the interpreter of the environment that is spoken of."""

from __future__ import annotations

import re

from doctor.facts import Facts, PythonInfo, Scope, Version, seen
from doctor.intake.environment import SCOPE

AT = "python --version"
_ANSWER = re.compile(r"^Python (3\.\d{1,2}\.\d{1,3})(?:[a-z+]\S{0,20})?[ \t]*$", re.MULTILINE)
MARKS = ("Python 3.",)


def looks_like(text: str) -> bool:
    """Tell by a line that is the answer and nothing else."""
    return _ANSWER.search(text) is not None


def parse(text: str) -> Facts:
    """The version, in the one environment of a paste."""
    match = _ANSWER.search(text)
    version = Version.maybe(match[1]) if match else None
    if version is None:
        return Facts()
    return Facts(scopes=(Scope(id=SCOPE, kind="venv", python=seen(PythonInfo(version), AT)),))
