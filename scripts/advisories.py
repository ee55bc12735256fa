"""What doctor itself is installed from: a CycloneDX list, and the known advisories for it.

    python scripts/advisories.py [--sbom FILE] [--url URL | --index URL]

Looks at the distributions that llm-doctor requires, with its extras, as they are installed
beside this Python. Answers 0 if none has an advisory, 1 if one has, and 3 if that could not be
found out: a check that was not made is no pass. Source of advisories: OSV,
https://google.github.io/osv.dev/post-v1-querybatch/; with --index the pages of the JSON API of
a package index, of which a mirror may hold the newest release alone.
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


def index_advisories(
    parts: Sequence[Part], index: str
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Advisories by distribution from the JSON pages of an index, and why others are not known."""
    found, unknown = {}, {}
    for part in parts:
        release = f"{part.name} {part.version}"
        try:
            names = _on_page(part, index.rstrip("/"))
        except NotChecked as why:
            unknown[release] = str(why)
            continue
        if names:
            found[release] = names
    return found, unknown


def _on_page(part: Part, index: str) -> list[str]:
    """Identifiers of the release's page, else of the project's page if that is of this release."""
    try:
        page = _asked(None, f"{index}/pypi/{part.name}/{part.version}/json")
    except NotChecked:
        page = _asked(None, f"{index}/pypi/{part.name}/json")
    info, rows = page.get("info"), page.get("vulnerabilities")
    if not isinstance(info, dict) or info.get("version") != part.version:
        raise NotChecked("the index has no page for this release")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise NotChecked("its page holds no list of advisories")
    return [str(row.get("id")) for row in rows if not row.get("withdrawn")]


def _asked(body: bytes | None, url: str) -> dict[str, Any]:
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
    where = asked.add_mutually_exclusive_group()
    where.add_argument("--url", default=URL)
    where.add_argument("--index", help="a package index, without /simple")
    given = asked.parse_args(arguments)
    unknown: dict[str, str] = {}
    try:
        parts = closure()
        if given.sbom:
            given.sbom.write_text(
                render(ImageConfig(ref=OWN), Parts(parts), "application"), encoding="utf-8"
            )
        if given.index:
            # Its own releases are made here and on no index; its code is what is reviewed.
            parts = tuple(part for part in parts if part.name != OWN)
            found, unknown = index_advisories(parts, given.index)
        else:
            found = advisories(parts, given.url)
    except NotChecked as fault:
        print(f"not checked: {fault}", file=sys.stderr)
        return NOT_CHECKED
    for name, names in found.items():
        print(f"{name}: {', '.join(names)}")
    for name, why in unknown.items():
        print(f"not checked: {name}: {why}", file=sys.stderr)
    checked = len(parts) - len(unknown)
    print(f"{checked} of {len(parts)} distributions checked, {len(found)} with advisories")
    return FOUND if found else NOT_CHECKED if unknown else NONE


if __name__ == "__main__":
    sys.exit(main())
