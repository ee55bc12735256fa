"""Write the golden files again: `python -m tests.golden.write`; look at the difference.

With `--judge` the stored diagnoses are judged again first, which rules and matrix change.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import date

import doctor
from doctor.checkup import check, read_log
from doctor.examine import Sources
from doctor.facts import Facts, seen
from doctor.gate import Config, Gate, Ignore
from doctor.report import FLEET_FORMATS, FORMATS, Report, Style, fleet_renderer, renderer
from doctor.report.fingerprint import fingerprint
from tests.golden.shared import FOLDER, fleet, load, names, save

ROOT = FOLDER.parent.parent
# Of formats that are not named as their files are.
SUFFIXES = {"text": "txt", "junit": "xml", "markdown": "md", "github": "annotations",
            "prometheus": "prom"}  # fmt: skip
_INLINE = re.compile(r"<(style|script)>.*?</\1>", re.DOTALL)
_HASHES = re.compile(r"'sha256-[^']*'")


def judged() -> dict[str, Report]:
    """The reports that are stored: one for each way in which a report can turn out."""
    broken = _of("examples/old-driver.yaml")
    return {
        "broken": broken,
        "gated": _gated(broken),
        "healthy": _of("tests/hosts/t4-535/facts.json"),
        "log": read_log("tests/golden/server.log", Sources(), "vllm==0.20.0"),
        "nothing": check_of(Facts(devices=seen((), "the bus"))),
        "several": _of("tests/hosts/v100-a10-595/facts.json"),
        "undecided": _of("tests/hosts/amd-intel/facts.json"),
    }


def _of(path: str) -> Report:
    return check(Sources((path,)))


def check_of(facts: Facts) -> Report:
    """A report of facts that no file holds."""
    from doctor.diagnose import diagnose
    from doctor.matrix import load_matrix

    return Report(facts, diagnose(facts, load_matrix()))


def _gated(report: Report) -> Report:
    """Its first finding known from a baseline, its notes ignored, an entry out of date."""
    target = report.diagnosis.targets[0]
    known = frozenset({fingerprint(report, target.subject, target.findings[0])})
    entries = (
        Ignore("ports are closed", cause="engine-vulnerable", until=date(2027, 1, 1)),
        Ignore("being mended", code="DRV101", until=date(2026, 1, 1)),
    )
    gate = Gate(Config(entries), "doctor.toml", known, date(2026, 11, 29))
    return gate.apply(report)


def rendered() -> dict[str, str]:
    """File names and texts of all golden files."""
    found = {}
    for name in names():
        for form in FORMATS:
            found[f"{name}.{SUFFIXES.get(form, form)}"] = _lasting(
                renderer(form)(load(name), Style())
            )
    for form in FLEET_FORMATS:
        found[f"fleet.{SUFFIXES.get(form, form)}"] = _lasting(
            fleet_renderer(form)(fleet(), Style())
        )
    return found


def _lasting(text: str) -> str:
    """Without what every release and every change of a style sheet alters."""
    text = _HASHES.sub("'sha256-'", _INLINE.sub(r"<\1></\1>", text))
    return text.replace(f'"{doctor.__version__}"', '"VERSION"')


def main(arguments: list[str]) -> None:
    if "--judge" in arguments:
        os.chdir(ROOT)  # reports name their files as people do: from the top of the checkout
        for name, report in judged().items():
            save(name, report)
    for name, text in rendered().items():
        (FOLDER / "files" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
