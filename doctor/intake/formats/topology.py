"""The matrix of `nvidia-smi topo -m` and `-p2p`, `rocm-smi --showtopo`, `npu-smi info -t topo`."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import UNSTATED, Facts, Reading, TopologyLink, seen
from doctor.probes.tool_text import lines

AT = "topology matrix"
_HEADER = re.compile(r"^[ \t]{0,40}((?:GPU|NPU)0(?:[ \t][^\n]{0,4000})?)$", re.MULTILINE)
_LINK = re.compile(r"NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|XGMI|PCIE|HCCS|HCCS_SW|SIO", re.IGNORECASE)
_PEER = {"OK": True, "CNS": False, "GNS": False, "TNS": False, "NS": False, "DR": False}


def looks_like(text: str) -> bool:
    """Tell by a header line that begins with the first device."""
    return ("GPU0" in text or "NPU0" in text) and bool(_matrices(text))


def parse(text: str) -> Facts:
    """Links between devices; network cards and affinities are left out."""
    return Facts(topology=read_topology(text))


def read_topology(text: str) -> Reading[tuple[TopologyLink, ...]]:
    """The links of every matrix in the text; unstated if there is none."""
    links: dict[tuple[str, str], TopologyLink] = {}
    for header, body in _matrices(text):
        for link in _links(header, body):
            known = links.get((link.a, link.b))
            links[link.a, link.b] = _joined(known, link) if known else link
    return seen(tuple(links.values()), AT) if links else UNSTATED


def _matrices(text: str) -> list[tuple[list[str], str]]:
    found = []
    for match in islice(_HEADER.finditer(text), 8):
        names = match[1].split("CPU Affinity")[0].split()
        found.append((names, text[match.end() + 1 : match.end() + 40_000]))
    return found


def _links(names: list[str], body: str) -> list[TopologyLink]:
    """Cells above the diagonal, row by row until a line is no row."""
    found = []
    for line in lines(body)[: len(names) + 4]:
        cells = line.split()
        if not cells:
            continue
        if cells[0] not in names:
            break
        row = names.index(cells[0])
        for name, cell in zip(names[row + 1 :], cells[row + 2 :], strict=False):
            link = _link(cells[0], name, cell)
            if link:
                found.append(link)
    return found


def _link(a: str, b: str, cell: str) -> TopologyLink | None:
    if not (_is_device(a) and _is_device(b)):
        return None
    if cell in _PEER:
        return TopologyLink(a.lower(), b.lower(), "", _PEER[cell])
    if _LINK.fullmatch(cell):
        return TopologyLink(a.lower(), b.lower(), cell.upper())
    return None


def _is_device(name: str) -> bool:
    return name[:3] in ("GPU", "NPU") and name[3:].isdecimal()


def _joined(first: TopologyLink, second: TopologyLink) -> TopologyLink:
    """A matrix of links and one of peer access speak of the same pairs."""
    p2p = first.p2p if second.p2p is None else second.p2p
    return TopologyLink(first.a, first.b, first.link or second.link, p2p)
