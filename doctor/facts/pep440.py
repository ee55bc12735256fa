"""One exact version, taken apart and ordered as PEP 440 says; llama.cpp builds too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Optional

from doctor.facts.record import Record

Key = tuple[Any, ...]

_EXACT = re.compile(
    r"""v?(?:(?P<epoch>\d{1,9})!)?(?P<release>\d{1,18}(?:\.\d{1,18})*)
    (?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>\d{0,18}))?
    (?:-(?P<post_dash>\d{1,18})|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d{0,18}))?
    (?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d{0,18}))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?""",
    re.VERBOSE | re.IGNORECASE,
)
_BUILD = re.compile(r"b(\d{1,9})", re.IGNORECASE)
_PRE = {"a": "a", "alpha": "a", "b": "b", "beta": "b"}


@dataclass(frozen=True, repr=False, eq=False)
class Parts(Record):
    """One exact version, taken apart."""

    epoch: int
    release: tuple[int, ...]
    pre: Optional[tuple[str, int]]
    post: Optional[int]
    dev: Optional[int]
    local: str

    def key(self) -> Key:
        """Order as PEP 440 does, local label left out."""
        release = self.release
        while len(release) > 1 and release[-1] == 0:
            release = release[:-1]
        dev = self.dev if self.dev is not None else 1 << 60
        pre = self.pre
        if pre is None:
            # A pure dev release sorts before every pre-release of its version.
            early = self.post is None and self.dev is not None
            pre = ("", 0) if early else ("z", 0)
        post = self.post if self.post is not None else -1
        return (self.epoch, release, pre, post, dev)


def _number(text: Optional[str]) -> int:
    return int(text) if text else 0


@lru_cache(maxsize=4096)
def parse_exact(text: str) -> Optional[Parts]:
    """Take "2.8.0rc1+cu128" or "b7474" apart; None for what is not an exact version."""
    build = _BUILD.fullmatch(text)
    if build is not None:
        return Parts(-1, (int(build[1]),), None, None, None, "")
    match = _EXACT.fullmatch(text)
    if match is None:
        return None
    post: Optional[int] = None
    if match["post_dash"] or match["post"]:
        post = _number(match["post_dash"] or match["post_n"])
    return Parts(
        _number(match["epoch"]),
        tuple(int(part) for part in match["release"].split(".")),
        (_PRE.get(match["pre"].lower(), "rc"), _number(match["pre_n"])) if match["pre"] else None,
        post,
        _number(match["dev_n"]) if match["dev"] else None,
        re.sub("[-_]", ".", (match["local"] or "").lower()),
    )
