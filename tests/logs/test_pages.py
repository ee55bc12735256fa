"""What explains a cause that a log names: a page of that cause, of the host and not of its past."""

from __future__ import annotations

import pytest

from doctor.diagnose import diagnose
from doctor.intake.field_report import read_field_report
from doctor.matrix.catalogue import Signature
from doctor.matrix.load import load_matrix
from doctor.rules.registry import RULES

MATRIX = load_matrix()
CAUSE_OF = {rule.code: rule.cause for rule in RULES}
NAMING = [s for s in MATRIX.signatures if any(c.rule for c in s.candidates)]


@pytest.mark.parametrize("signature", NAMING, ids=lambda s: s.id)
def test_a_page_that_is_named_is_one_of_that_cause(signature: Signature) -> None:
    for candidate in signature.candidates:
        assert not candidate.rule or CAUSE_OF[candidate.rule] == candidate.cause


@pytest.mark.parametrize("signature", MATRIX.signatures, ids=lambda s: s.id)
def test_words_of_a_log_alone_are_never_explained_by_a_drift(signature: Signature) -> None:
    words = " ".join((*signature.any[:1], *signature.all))
    found = diagnose(read_field_report({"log": f"RuntimeError: {words}\n"}), MATRIX)
    primaries = [t.primary.code for t in found.targets if t.primary]
    assert not [code for code in primaries if code.startswith("DFT")]
