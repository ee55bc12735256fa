"""Read lengths from a file: JSON lines or CSV, one request a line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from doctor.errors import UsageError
from doctor.named_files import open_named
from doctor.smoke.bench.lengths import Lengths, Pair

MOST_ROWS, LONGEST_LINE = 100_000, 1 << 20
# Column names of published traces and of the logs of engines and gateways.
PROMPT = ("prompt_tokens", "input_tokens", "contexttokens", "prompt_len", "input_length",
          "input_len", "request tokens", "prompt")  # fmt: skip
OUTPUT = ("completion_tokens", "output_tokens", "generatedtokens", "output_len", "output_length",
          "response tokens", "max_tokens", "output")  # fmt: skip
_HINT = 'each line like {"prompt_tokens": 512, "output_tokens": 128}, or a CSV with such columns'


def read_lengths(path: Path) -> Lengths:
    """The pairs of a file, at most MOST_ROWS. Raises UsageError if it has none."""
    try:
        wrapped = TextIOWrapper(open_named(path), "utf-8-sig", "replace", newline="")
        with wrapped as file:
            pairs = tuple(islice(_pairs(file, path.suffix.lower()), MOST_ROWS))
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}", _HINT) from None
    except csv.Error as fault:
        raise UsageError(f"{path} is no CSV: {fault}", _HINT) from None
    if not pairs:
        raise UsageError(f"{path} holds no lengths of requests", _HINT)
    return Lengths(path.name, pairs, "a file")


def _pairs(file: TextIO, suffix: str) -> Iterator[Pair]:
    rows = _json_rows(file) if suffix in (".jsonl", ".json", ".ndjson") else _csv_rows(file)
    for row in rows:
        pair = _pair(row)
        if pair is not None:
            yield pair


def _json_rows(file: TextIO) -> Iterator[Mapping[str, Any]]:
    while line := file.readline(LONGEST_LINE):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def _csv_rows(file: TextIO) -> Iterable[Mapping[str, Any]]:
    return csv.DictReader(iter(lambda: file.readline(LONGEST_LINE), ""))


def _pair(row: Mapping[str, Any]) -> Pair | None:
    """The two lengths of a row; None for one without, or with a prompt of no tokens."""
    plain = {str(name).strip().lower(): value for name, value in row.items()}
    prompt, output = (_first(plain, names) for names in (PROMPT, OUTPUT))
    return (prompt, output) if prompt and output else None


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> int:
    return next((_count(row[name]) for name in names if name in row), 0)


def _count(value: Any) -> int:
    """A count of tokens; 0 for anything else."""
    text = str(value).strip()
    plain = text.isascii() and text.isdigit() and len(text) < 8
    return int(text) if plain else 0
