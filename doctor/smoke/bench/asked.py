"""From the words of a command line to a load test."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from doctor.errors import UsageError
from doctor.matrix import Matrix
from doctor.smoke.bench.ask import MOST_RATE, MOST_USERS, BenchAsk, Limits, Load
from doctor.smoke.bench.lengths import Lengths
from doctor.smoke.bench.lengths_file import read_lengths
from doctor.smoke.secret import read_secret
from doctor.smoke.target import server_url

# Doublings: each step asks whether twice the load brings more.
SWEEP = (1, 2, 4, 8, 16, 32)
_FIXED = re.compile(r"(\d{1,7})x(\d{1,6})")
_MOST_LOADS = 32


@dataclass(frozen=True)
class Options:
    """What was written: every field as it stands on the command line."""

    url: str
    model: str = ""
    api_key: str = ""
    users: str = ""
    rates: str = ""
    lengths: str = "chat"
    limits: Limits = Limits()
    warm_up: int = 2
    seed: int = 1
    chat: bool | None = None
    ttft_limit_s: float | None = None


def read_ask(options: Options, matrix: Matrix) -> BenchAsk:
    """Understand the options. Raises UsageError for what contradicts itself or means nothing."""
    url = server_url(options.url)
    if options.users and options.rates:
        raise UsageError("--concurrency and --rate contradict each other", "name one of them")
    limits = options.limits
    lengths = find_lengths(options.lengths, matrix).cut(limits.prompt, limits.output)
    return BenchAsk(
        url=url,
        lengths=lengths,
        loads=_loads(options),
        stops_early=not options.users and not options.rates,
        model=options.model,
        key=read_secret(options.api_key),
        limits=limits,
        warm_up=options.warm_up,
        seed=options.seed,
        chat=options.chat,
        ttft_limit_s=options.ttft_limit_s,
    )


def _loads(options: Options) -> tuple[Load, ...]:
    if options.rates:
        return tuple(Load(rate=rate) for rate in _numbers("--rate", options.rates, MOST_RATE))
    if options.users:
        counts = _numbers("--concurrency", options.users, MOST_USERS)
        if any(count != int(count) for count in counts):
            raise UsageError("--concurrency takes whole numbers", "--concurrency 1,4,16")
        return tuple(Load(users=int(count)) for count in counts)
    return tuple(Load(users=users) for users in SWEEP)


def _numbers(option: str, text: str, most: float) -> tuple[float, ...]:
    """Read "1,2,4": numbers above 0 in rising order."""
    try:
        found = sorted({float(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or not all(0 < number <= most for number in found):
        raise UsageError(f"{option} {text[:60]!r} means nothing", f"numbers up to {most:g}: 1,2,4")
    if len(found) > _MOST_LOADS:
        raise UsageError(f"{option} names more than {_MOST_LOADS} loads", "name fewer")
    return tuple(found)


def find_lengths(text: str, matrix: Matrix) -> Lengths:
    """Lengths by the name of a row, as "512x128", or from a file. Raises UsageError."""
    for row in matrix.serving.lengths:
        if row.key == text:
            return Lengths(row.key, row.pairs, row.source[0])
    fixed = _FIXED.fullmatch(text)
    if fixed and int(fixed[1]) and int(fixed[2]):
        return Lengths(text, ((int(fixed[1]), int(fixed[2])),), "one fixed length")
    if fixed is None and os.path.exists(text):
        return read_lengths(Path(text))
    names = ", ".join(row.key for row in matrix.serving.lengths)
    raise UsageError(
        f"--lengths {text[:200]!r} is neither known nor a file",
        f"{names}, PROMPTxANSWER in tokens (512x128), or a file of JSON lines or CSV",
    )
