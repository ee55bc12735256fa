"""Waits for a moment in which an engine has no request, no longer than it may take.

    drain_service.py DRAIN.json

Standard library, Python 3.9. DRAIN.json: url of the engine's metrics, names of the gauges that
count requests at work or waiting, drain_s, mark (a file that is there meanwhile, for what
stands before the engine), key (a reference, "" if none is needed). It always ends with 0: the
restart that follows is due.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from contextlib import suppress
from typing import Any

PAUSE_S, ANSWER_S = 1.0, 5.0
LIMIT = 4 << 20


def in_flight(text: str, names: list[str]) -> float | None:
    """The sum of the gauges of that name in a text of metrics; None if there is none."""
    values = []
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in names:
            with suppress(ValueError, IndexError):
                values.append(float(line.rpartition("}")[2].split()[0 if "}" in line else 1]))
    return sum(values) if values else None


def ask(config: dict[str, Any]) -> float | None:
    """Requests at work or waiting now; None if the engine does not say."""
    request = urllib.request.Request(config["url"])  # noqa: S310 - doctor's own file, http
    key = secret(config.get("key", ""))
    if key:
        request.add_header("Authorization", "Bearer " + key)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=ANSWER_S) as answer:
            return in_flight(answer.read(LIMIT).decode("utf-8", "replace"), config["names"])
    except (OSError, ValueError):
        return None


def secret(reference: str) -> str:
    """What file:PATH holds, or credential:NAME, which systemd has laid out for the unit."""
    kind, _, place = reference.partition(":")
    if kind == "credential":
        place = os.path.join(os.environ.get("CREDENTIALS_DIRECTORY", "/"), place)
    try:
        with open(place, encoding="utf-8") as file:
            return file.read(1 << 16).strip()
    except OSError:
        return ""


def drain(config: dict[str, Any]) -> str:
    """Wait, and say how it ended."""
    mark = config["mark"]
    os.makedirs(os.path.dirname(mark), exist_ok=True)
    with open(mark, "w", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    try:
        until = time.monotonic() + float(config["drain_s"])
        while True:
            busy = ask(config)
            if busy is None:
                return "the engine does not say how much it has to do"
            if not busy:
                return "no request is at work"
            if time.monotonic() > until:
                return f"{busy:g} requests are still at work after {config['drain_s']} s"
            time.sleep(PAUSE_S)
    finally:
        with suppress(OSError):
            os.unlink(mark)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as source:
        print(drain(json.load(source)))
