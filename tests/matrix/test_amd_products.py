"""AMD products: each PCI id and each name leads to one target, and both to the same."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from doctor.matrix import amd_products, load_matrix
from doctor.matrix.lookup import ask
from doctor.matrix.model import Claim
from doctor.rules import amd_cards

MATRIX = load_matrix()
ROWS = [match.claim for match in MATRIX.claims("rocm", "gpu")]


def test_every_id_and_every_name_has_one_target() -> None:
    for key in ("devices", "names"):
        count = Counter(str(item).lower() for row in ROWS for item in row.data.get(key, ()))
        assert [item for item, number in count.items() if number > 1] == []
    assert all(re.fullmatch(r"gfx\d{2,4}[a-c]?", row.key) for row in ROWS)
    ids = [item for row in ROWS for item in row.data["devices"]]
    assert all(re.fullmatch(r"[0-9a-f]{4}", item) for item in ids)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_names_lead_where_their_row_says(row: Claim) -> None:
    for name in row.data["names"]:
        assert amd_products.of_product(MATRIX, f"AMD {name} (rev c1)") == row.key


@pytest.mark.parametrize(
    ("pci_id", "gfx"),
    [
        ("1002:74a1", "gfx942"),
        ("1002:744C", "gfx1100"),
        ("1002:7550", "gfx1201"),
        ("10de:7550", None),
        ("", None),
    ],
)
def test_ids_as_the_kernel_writes_them(pci_id: str, gfx: str | None) -> None:
    assert amd_products.of_pci(MATRIX, pci_id) == gfx


def test_targets_in_the_name_of_a_build() -> None:
    assert amd_cards.targets_in("rocm7 GFX90a,gfx1100") == {"gfx90a", "gfx1100"}


@pytest.mark.parametrize("words", [("gpu", "1002:74a1"), ("gpu", "AMD", "Instinct", "MI300X")])
def test_a_person_may_ask_for_one(words: tuple[str, ...]) -> None:
    (section,) = ask(MATRIX, words).sections
    assert section.rows[0]["key"] == "gfx942"
