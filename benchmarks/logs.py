"""Time of reading a log of 1 MB, for texts that are made to be slow.

    python -m benchmarks.logs [--runs 5] [--intake]

CPU milliseconds of one reading, the least of all runs, as a busy machine adds to it. With
--intake also of recognising the text as what a person may hand over. The texts are those
of tests/logs/hostile.py; the aim is 50 ms for each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

from doctor.diagnose import HOST_SCOPE
from doctor.errors import DoctorError
from doctor.facts import Facts, LogText
from doctor.intake import parse_input
from doctor.logs import suspect
from doctor.matrix import Matrix, load_matrix
from tests.intake.hostile import HOSTILE as PASTES
from tests.logs.hostile import HOSTILE as LOGS


def least(work: Callable[[], object], runs: int) -> float:
    """Milliseconds of CPU time of the fastest run, after one that warms up."""
    times = []
    for _ in range(runs + 1):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1000 * min(times[1:])


def read(text: str, matrix: Matrix) -> object:
    """What `doctor diagnose LOG` does with the text of a log."""
    return suspect(Facts(logs=(LogText(text),)), HOST_SCOPE, None, matrix)


def recognise(text: str) -> object:
    """What `--facts` does with a text."""
    try:
        return parse_input(text)
    except DoctorError as fault:
        return fault


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--intake", action="store_true")
    options = parser.parse_args()
    matrix = load_matrix()
    texts = {name: make(matrix.signatures) for name, make in LOGS.items()}
    for name, text in texts.items():
        show(name, partial(read, text, matrix), options.runs)
    if options.intake:
        texts.update({name: make() for name, make in PASTES.items()})
        for name, text in texts.items():
            show(f"intake: {name}", partial(recognise, text), options.runs)


def show(name: str, work: Callable[[], object], runs: int) -> None:
    """Print one row at once: all of them take a while."""
    print(f"{least(work, runs):7.1f} ms  {name}", flush=True)


if __name__ == "__main__":
    main()
