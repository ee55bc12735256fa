"""Every kind of claim is read by code, or is named here as what a person alone is shown."""

from __future__ import annotations

import re
from pathlib import Path

import doctor
from doctor.matrix.load import load_matrix

# Shown by `doctor matrix query ENGINE VERSION`; no host can be judged by them.
SHOWN = {
    "build-option": "what can be chosen where an engine is compiled",
    "companion": "releases of packages beside the engine",
    "feature": "what a part of the engine needs, where no fact says that the part is used",
    "package-naming": "how packages of another release are called",
    "quantization-path": "slower arithmetic, which is no fault",
    "trap": "habits of an engine that no fact shows",
    "wheel-index": "where wheels are had",
}


def _kinds() -> set[str]:
    matrix = load_matrix()
    domains = [domain for name in matrix.engine_names if (domain := matrix.engine(name))]
    claimed = {claim.kind for domain in domains for claim in domain.claims}
    return claimed | {roster.kind for domain in domains for roster in domain.rosters}


def test_every_kind_of_claim_is_read_or_only_shown() -> None:
    root = Path(doctor.__file__).parent
    code = "".join(path.read_text() for path in root.rglob("*.py") if "verify" not in path.name)
    read = {kind for kind in _kinds() if re.search(rf'"{re.escape(kind)}"', code)}
    assert _kinds() - read == SHOWN.keys() & _kinds()
    assert SHOWN.keys() <= _kinds()
