"""`ls /dev/nvidia*`, `/dev/kfd`, `/dev/dri`, `/dev/davinci*`: device nodes of accelerators."""

from __future__ import annotations

import re
from itertools import islice

from doctor.facts import UNSTATED, AscendFacts, Facts, NvidiaFacts, Reading, RocmFacts, seen

AT = "ls /dev"
_NODE = re.compile(
    r"(?:(?<=/dev/)|(?<=\d{2}:\d{2} )|(?<=\d{4} ))"
    r"(nvidia(?:\d{1,3}|ctl|-uvm(?:-tools)?|-modeset|-nvswitch\w{1,4})|kfd|(?:dri/)?renderD\d{1,4}"
    r"|davinci(?:\d{1,3}|_manager)|devmm_svm|hisi_hdc)(?![\w.*-])"
)
# Only a list of files is taken for one: a mode before the name, or names and nothing else.
_LINE = re.compile(
    r"^(?:c[rwx-]{9}[.+@]? [^\n]{10,120}|[ \t]{0,8}(?:/dev/[\w/-]{2,40}[ \t]{0,8}){1,64})$",
    re.MULTILINE,
)
_ABSENT = re.compile(
    r"^ls: (?:cannot access )?['\"\u2018]?/dev/(nvidia|kfd|davinci)[^\n]{0,40}No such file",
    re.MULTILINE,
)
MARKS = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/davinci")


def looks_like(text: str) -> bool:
    """Tell by a node in a list of files, or by the sentence that there is none."""
    return bool(_nodes(text)) or _ABSENT.search(text) is not None


def parse(text: str) -> Facts:
    """The nodes of each driver that was asked about."""
    nodes = _nodes(text)
    absent = {match[1] for match in _ABSENT.finditer(text)}
    return Facts(
        nvidia=NvidiaFacts(device_nodes=_of("nvidia", nodes, absent)),
        rocm=RocmFacts(nodes=_of("kfd", nodes, absent)),
        ascend=AscendFacts(nodes=_of("davinci", nodes, absent)),
    )


def _nodes(text: str) -> tuple[str, ...]:
    lines = islice(_LINE.finditer(text), 500)
    found = (match[1] for line in lines for match in _NODE.finditer(line[0]))
    named = (name if name.startswith(("dri", "nv", "kfd", "da", "de", "hi")) else f"dri/{name}"
             for name in found)  # fmt: skip
    return tuple(dict.fromkeys(f"/dev/{name}" for name in named))


def _of(name: str, nodes: tuple[str, ...], absent: set[str]) -> Reading[tuple[str, ...]]:
    own = tuple(node for node in nodes if _is_of(name, node))
    if not own:
        return seen((), AT) if name in absent else UNSTATED
    return seen(own, AT, partial=True)


def _is_of(name: str, node: str) -> bool:
    others = {"kfd": ("/dev/dri/",), "davinci": ("/dev/devmm_svm", "/dev/hisi_hdc")}
    return node.startswith((f"/dev/{name}", *others.get(name, ())))
