"""`python --version`, and what torch says of itself: the environment that is spoken of."""

from __future__ import annotations

import re

from doctor.facts import Facts, PythonInfo, Scope, Version, seen
from doctor.intake.environment import SCOPE, environment, package

AT = "python --version"
_ANSWER = re.compile(r"^Python (3\.\d{1,2}\.\d{1,3})(?:[a-z+]\S{0,20})?[ \t]*$", re.MULTILINE)
# print(torch.__version__, torch.version.cuda, torch.cuda.is_available()), one line or three.
_TORCH = re.compile(
    r"torch\.__version__[^\n]{0,200}\n(?:[^\n]{0,20}\n)?[ \t]*['\"]?"
    r"(\d\.\d{1,2}\.\d(?:(?:a|b|rc)\d{1,2}|\.dev\d{8})?(?:\+[\w.]{2,20})?)(?![\w.])"
)
MARKS = ("Python 3.", "torch.__version__")


def looks_like(text: str) -> bool:
    """Tell by a line that is the answer and nothing else."""
    return _ANSWER.search(text) is not None or _TORCH.search(text) is not None


def parse(text: str) -> Facts:
    """The version, in the one environment of a paste."""
    match, torch = _ANSWER.search(text), _TORCH.search(text)
    version = Version.maybe(match[1]) if match else None
    if torch is not None:
        listed = [package("torch", torch[1])]
        return environment(
            listed, "torch.__version__", partial=True, python=match[1] if match else ""
        )
    if version is None:
        return Facts()
    return Facts(scopes=(Scope(id=SCOPE, kind="venv", python=seen(PythonInfo(version), AT)),))
