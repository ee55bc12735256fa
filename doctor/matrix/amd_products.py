"""AMD products: the gfx target that a PCI id or the name of a product stands for."""

from __future__ import annotations

import re

from doctor.matrix.model import Claim
from doctor.matrix.query import Matrix

_WORDS = re.compile(r"[a-z0-9]+")


def of_pci(matrix: Matrix, pci_id: str) -> str | None:
    """The gfx name of a PCI id ("1002:74a1")."""
    row = row_of_pci(matrix, pci_id)
    return row.key if row is not None else None


def of_product(matrix: Matrix, name: str) -> str | None:
    """The gfx name of a product by the longest of its names that the text holds."""
    row = row_of_product(matrix, name)
    return row.key if row is not None else None


def row_of_pci(matrix: Matrix, pci_id: str) -> Claim | None:
    """The row of a PCI id; None for one of another maker or that is not known."""
    vendor, _, device = pci_id.strip().lower().rpartition(":")
    if vendor not in ("", "1002") or not device:
        return None
    rows = (match.claim for match in matrix.claims("rocm", "gpu"))
    return next((row for row in rows if device in row.data.get("devices", ())), None)


def row_of_product(matrix: Matrix, name: str) -> Claim | None:
    """The row of a product by the longest of its names that the text holds.

    People leave out the family of a name: "7900XTX", "W7900" and "780M" are found under it.
    """
    words = _words(name)
    if not words:
        return None
    named = [
        (_words(str(product)), match.claim)
        for match in matrix.claims("rocm", "gpu")
        for product in match.claim.data.get("names", ())
    ]
    named.sort(key=lambda item: -len(item[0]))
    bare = words[1:] if words[0] in _MAKER else words
    tried = (words, *([*family, *bare] for family in _FAMILIES))
    held = (row for text in tried for product, row in named if _holds(text, product))
    return next(held, None)


_MAKER = ("amd", "radeon", "ati")
_FAMILIES = (["rx"], ["radeon"], ["radeon", "pro"], ["instinct"])


def _words(text: str) -> list[str]:
    """Words in small letters, figures apart from the RX before and the XT or XTX behind them."""
    spaced = re.sub(r"(?<=\d)(xtx|xt|gre)\b", r" \1", text.lower().replace("_", " "))
    return _WORDS.findall(re.sub(r"\b(rx|vega)(?=\d)", r"\1 ", spaced))


def _holds(words: list[str], wanted: list[str]) -> bool:
    size = len(wanted)
    return any(words[i : i + size] == wanted for i in range(len(words) - size + 1))
