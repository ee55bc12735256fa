"""Write doctor/matrix/data/likelihood.yaml from the labelled reports under tests/.

python -m tests.make_likelihood [--check]   needs scikit-learn, which the extra `dev` brings

A multinomial logistic regression over what reports state. How often its first cause is right is
measured set by set, each with weights that come from the other sets only.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from doctor.diagnose import diagnose
from doctor.findings import Severity
from doctor.intake.case_file import read_case_file
from doctor.likelihood import features
from doctor.matrix import Matrix, load_matrix
from doctor.matrix.compile import compile_domain, read_yaml
from doctor.matrix.likelihood import LikelihoodDomain

ROOT = Path(__file__).parent.parent
KINDS = ROOT / "tests/data/kinds*.yaml"
TARGET = ROOT / "doctor/matrix/data/likelihood.yaml"
# Sets that were not yet scored stay out, so that their first run measures something.
UNSCORED: frozenset[str] = frozenset()
# Words of fewer reports say more about those reports than about the next one.
FEWEST = 5
# The inverse strength of the penalty on weights; a third to three times of it measured alike.
STRENGTH = 0.2
# Shares at which the levels begin, as far as enough reports are at them.
SHARES = (0.5, 0.3, 0.2, 0.1)
SOUND = ""
MONTH = re.compile(r"\d{4}-\d\d")
HEAD = """\
# Written by tests/make_likelihood.py from the labelled reports under tests/; not by hand.
# weights: hundredths of a nat, in the order of causes; words of a report: places in `words`.
as_of: '{as_of}'
source: ['{source}']
confidence: inferred
note: >-
  A multinomial logistic regression (L2, C={strength}) over {n} public reports, each labelled
  from its thread, and {short} short ones that projects and vendors describe. It says what such
  reports turned out to be, not what is wrong on a host.
"""


@dataclass(frozen=True)
class Report:
    """A labelled report: the set it is in, its words, the causes that count as right.

    `is_open`: no rule decides about it.
    """

    group: str
    source: str
    words: frozenset[str]
    cause: str
    accepted: frozenset[str]
    by_facts: bool
    is_open: bool
    month: str


@dataclass(frozen=True)
class Weights:
    """A fitted regression: `table` has a row for each word and a column for each cause."""

    words: tuple[str, ...]
    causes: tuple[str, ...]
    bias: Any
    table: Any

    def shares(self, reports: Sequence[Report]) -> Any:
        """One row for each report: the share of each cause."""
        scores = matrix_of(reports, self.words) @ self.table + self.bias
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)


def read_reports(matrix: Matrix, judged: bool = True) -> list[Report]:
    """All labelled reports with a cause, and all sound hosts; their logs are not read.

    Short ones, written from what projects and vendors state, have no source. Rules, which only
    levels need, take most of the time: if they are not `judged`, all reports are open.
    """
    folders = sorted((ROOT / "tests").glob("field_reports*"))
    read = (folder for folder in folders if folder.name not in UNSCORED)
    paths = (path for folder in read for path in sorted(folder.glob("*.yaml")))
    public = [(path.parent.name, _text(path)) for path in paths]
    told = (kind for path in sorted(KINDS.parent.glob(KINDS.name)) for kind in _text(path)["kinds"])
    short = [("kinds", {**kind, "expect": kind, "source": ""}) for kind in told]
    return [
        report for group, case in (*public, *short) for report in _read(group, case, matrix, judged)
    ]


def _text(path: Path) -> Any:
    return yaml.load(path.read_text(), Loader=yaml.CBaseLoader)  # noqa: S506 - text only


def _read(group: str, document: dict[str, Any], matrix: Matrix, judged: bool) -> Iterator[Report]:
    expect = document["expect"]
    if not isinstance(document.get("report"), dict):
        return
    is_control = expect.get("control") == "true"
    if expect.get("decidable") == "no" or not (is_control or expect.get("cause")):
        return
    stated = {key: value for key, value in document["report"].items() if key != "log"}
    facts = read_case_file({"report": stated})
    targets = diagnose(facts, matrix).targets if judged else ()
    found = (finding for target in targets for finding in target.findings)
    yield Report(
        group=group,
        source=document.get("source", ""),
        words=features(facts, matrix),
        cause=SOUND if is_control else expect["cause"],
        accepted=frozenset((expect.get("cause", ""), *(expect.get("also") or ()))),
        by_facts=expect.get("decidable", "facts") == "facts",
        is_open=all(finding.severity is Severity.INFO for finding in found),
        month=str(document.get("reported", "")),
    )


def matrix_of(reports: Sequence[Report], words: Sequence[str]) -> Any:
    """One row for each report, 1 where it has the word."""
    place = {word: number for number, word in enumerate(words)}
    table = np.zeros((len(reports), len(words)))
    for row, report in enumerate(reports):
        table[row, [place[word] for word in report.words if word in place]] = 1
    return table


def vocabulary(reports: Sequence[Report]) -> tuple[str, ...]:
    """The words of enough reports, in order."""
    told = Counter(word for report in reports for word in report.words)
    return tuple(sorted(word for word, count in told.items() if count >= FEWEST))


def fit(reports: Sequence[Report]) -> Weights:
    """Weights from these reports, in whole hundredths."""
    words = vocabulary(reports)
    told = matrix_of(reports, words)
    # A rare word says more than a common one: its weight is penalised less.
    scale = np.sqrt(np.log(len(reports) / told.sum(axis=0)))[:, np.newaxis]
    model = LogisticRegression(C=STRENGTH, max_iter=1000)
    model.fit(csr_matrix(told * scale.T), [report.cause for report in reports])
    return Weights(
        words,
        tuple(str(cause) for cause in model.classes_),
        np.round(model.intercept_, 2),
        np.round(model.coef_.T * scale, 2),
    )


def unseen(reports: Sequence[Report]) -> Iterator[tuple[Report, dict[str, float]]]:
    """Every fault of which no rule decides, with the shares that the other sets give it."""
    for group in sorted({report.group for report in reports if report.source}):
        mine = [r for r in reports if r.group == group and r.by_facts and r.is_open and r.cause]
        if not mine:
            continue
        weights = fit([r for r in reports if r.group != group])
        for report, row in zip(mine, weights.shares(mine), strict=True):
            yield report, dict(zip(weights.causes, row, strict=True))


def levels(judged: Iterable[tuple[Report, dict[str, float]]]) -> list[dict[str, Any]]:
    """How often the first cause was right, from sure to unsure."""
    firsts = []
    for report, shares in judged:
        faults = {cause: share for cause, share in shares.items() if cause}
        first = max(faults, key=lambda cause: faults[cause])
        firsts.append((faults[first] / sum(faults.values()), first in report.accepted))
    found = []
    for low, high in zip(SHARES, (2.0, *SHARES), strict=False):
        of = [right for share, right in firsts if low <= share < high]
        if of:
            found.append({"share": low, "right": sum(of), "reports": len(of)})
    return found


def without(group: str, matrix: Matrix) -> LikelihoodDomain:
    """The domain as it would be if the set `group` had not been read; its levels are shipped."""
    reports = [report for report in read_reports(matrix) if report.group != group]
    text = render(reports, fit(reports), read_yaml(TARGET)["levels"])
    with tempfile.TemporaryDirectory(prefix="doctor-likelihood-") as folder:
        path = Path(folder) / TARGET.name
        path.write_text(text)
        return msgspec.json.decode(compile_domain(path, LikelihoodDomain), type=LikelihoodDomain)


def render(reports: Sequence[Report], weights: Weights, measured: list[dict[str, Any]]) -> str:
    """The data file: one line for each word and each report."""
    public = sum(bool(report.source) for report in reports)
    head = HEAD.format(
        as_of=max(r.month for r in reports if MONTH.match(r.month))[:7] + "-01",
        source=f"{public} public reports, faults under `reports`; tests/data/kinds*.yaml",
        strength=STRENGTH,
        n=public,
        short=len(reports) - public,
    )
    parts = [head, f"causes: {_line(weights.causes)}", f"bias: {_line(_hundredths(weights.bias))}"]
    parts += ["levels:", *(f"- {_line(level)}" for level in measured), "words:"]
    parts += [
        f"- {_line({'word': word, 'weights': _hundredths(row)})}"
        for word, row in zip(weights.words, weights.table, strict=True)
    ]
    parts += ["reports:"]
    parts += [f"- {_line(row)}" for row in listed(reports, weights.words)]
    return "\n".join(parts) + "\n"


def listed(reports: Iterable[Report], words: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of all faults: source, cause and the places of their words."""
    place = {word: number for number, word in enumerate(words)}
    faults = (report for report in reports if report.cause and report.source)
    for report in sorted(faults, key=lambda r: (r.cause, r.source, sorted(r.words))):
        places = sorted(place[word] for word in report.words if word in place)
        yield {"source": report.source, "cause": report.cause, "words": places}


def _hundredths(row: Any) -> list[int]:
    return [round(100 * value) for value in row]


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ": "))


def main() -> int:
    """Write the file, or with --check say how far it is from what the reports give."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args()
    reports = read_reports(load_matrix())
    text = render(reports, fit(reports), levels(unseen(reports)))
    if options.check:
        same = text == TARGET.read_text()
        print("current" if same else f"{TARGET} is stale: run {sys.argv[0]}")
        return 0 if same else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
