"""What doctor itself is installed from: a CycloneDX list, and the known advisories for it.

    python scripts/advisories.py [--sbom FILE] [--url URL]

Looks at the distributions that llm-doctor requires, with its extras, as they are installed
beside this Python. Answers 0 if none has an advisory, 1 if one has, and 3 if that could not be
found out: a check that was not made is no pass. Source of advisories: OSV,
https://google.github.io/osv.dev/post-v1-querybatch/.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from doctor.images.config import ImageConfig
from doctor.images.parts import Part, Parts
from doctor.images.sbom import render

OWN = "llm-doctor"
URL = "https://api.osv.dev/v1/querybatch"
NONE, FOUND, NOT_CHECKED = 0, 1, 3
_LIMIT, _PATIENCE_S = 16 << 20, 60


class NotChecked(Exception):  # noqa: N818 - an answer, not a failure of the program
    """The advisories could not be asked for, or the answer is none."""


def closure(name: str = OWN) -> tuple[Part, ...]:
    """The distribution and all that it requires here, each once; `all` extras of the first."""
    found: dict[str, Part] = {}
    waiting = [(name, frozenset({"all"}))]
    seen = set()
    while waiting:
        wanted = waiting.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        try:
            there = metadata.distribution(wanted[0])
        except metadata.PackageNotFoundError:
            raise NotChecked(f"{wanted[0]} is required and not installed") from None
        key = canonicalize_name(wanted[0])
        found[key] = Part("pypi", key, there.version)
        waiting += _required(there.requires or (), wanted[1])
    return tuple(sorted(found.values()))


def _required(lines: Iterable[str], extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for line in lines:
        asked = Requirement(line)
        marks = extras or {""}
        if asked.marker is None or any(asked.marker.evaluate({"extra": e}) for e in marks):
            yield str(canonicalize_name(asked.name)), frozenset(asked.extras)


def advisories(parts: Sequence[Part], url: str) -> dict[str, list[str]]:
    """Advisories by distribution. Raises NotChecked for anything but a full answer."""
    queries = [
        {"package": {"ecosystem": "PyPI", "name": part.name}, "version": part.version}
        for part in parts
    ]
    results = _asked(json.dumps({"queries": queries}).encode(), url).get("results")
    if not isinstance(results, list) or len(results) != len(parts):
        raise NotChecked(f"{url} does not answer for each distribution")
    found = {}
    for part, result in zip(parts, results, strict=True):
        rows = result.get("vulns", []) if isinstance(result, dict) else None
        if not isinstance(rows, list):
            raise NotChecked(f"{url} does not answer for {part.name}")
        names = [str(row.get("id")) for row in rows if isinstance(row, dict)]
        if names:
            found[f"{part.name} {part.version}"] = names
    return found


def _asked(body: bytes, url: str) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - named by a person
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as reply:  # noqa: S310
            answer = json.loads(reply.read(_LIMIT))
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as fault:
        raise NotChecked(f"{url}: {fault}") from None
    if not isinstance(answer, dict):
        raise NotChecked(f"{url} does not answer with an object")
    return answer


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the list if it is wanted, then ask."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--sbom", type=Path)
    asked.add_argument("--url", default=URL)
    given = asked.parse_args(arguments)
    try:
        parts = closure()
        if given.sbom:
            given.sbom.write_text(
                render(ImageConfig(ref=OWN), Parts(parts), "application"), encoding="utf-8"
            )
        found = advisories(parts, given.url)
    except NotChecked as why:
        print(f"not checked: {why}", file=sys.stderr)
        return NOT_CHECKED
    for name, names in found.items():
        print(f"{name}: {', '.join(names)}")
    print(f"{len(parts)} distributions, {len(found)} with advisories")
    return FOUND if found else NONE


if __name__ == "__main__":
    sys.exit(main())
