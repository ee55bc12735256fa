"""Releases that came from the package index: offered, never as proven."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.matrix import load_matrix
from doctor.matrix.index_page import IndexFile
from doctor.matrix.learnt import write_learnt
from doctor.matrix.update_release import release_of
from doctor.stack.model import POSSIBLE, Ask, Resolution
from doctor.stack.resolve import resolve
from tests.stack.asking import host, proven

BOX = "python=3.12,ubuntu=22.04,arch=x86_64,glibc=2.35,container=docker"
NEWEST = "0.99.0"


@pytest.fixture(autouse=True)
def _learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    files = [IndexFile(f"vllm-{NEWEST}-cp38-abi3-manylinux_2_28_x86_64.whl", "")]
    stated = b"Requires-Python: >=3.10,<3.15\nRequires-Dist: torch==2.14.0\n\n"
    row = release_of(("vllm", NEWEST), files, stated, "2026-11-29")
    assert write_learnt("vllm", (row,), "2026-11-29")


def answer(line: str) -> Resolution:
    return resolve(host(f"{line},{BOX}"), load_matrix(), Ask(engine="vllm"), False)


def test_it_is_possible_and_below_what_is_proven() -> None:
    found = answer("H100,driver=580.95.05")
    assert proven(found)[0].version == "0.33.0"
    mine = [o for o in found.offers if o.stack is not None and o.stack.version == NEWEST]
    assert mine
    assert all(offer.state == POSSIBLE for offer in mine)
    assert all("learnt from the package index" in offer.lacks[0] for offer in mine)


def test_what_its_pins_rule_out_is_refused() -> None:
    refused = {
        str(j.candidate.version): j.findings for j in answer("V100,driver=580.95.05").refused
    }
    assert {"CUD101", "ENG101"} & {finding.code for finding in refused[NEWEST]}
