"""What many hosts have in common: equal faults together, and how versions are spread."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from doctor.facts import Facts
from doctor.findings import Finding, Severity, Verdict
from doctor.report import Fleet, Report
from doctor.report.ladder import devices_in_words, os_in_words


@dataclass
class Fault:
    """One cause by one rule: an example in full, and which hosts have it in which words.

    `roots` are the hosts of which it is the primary finding.
    """

    example: Finding
    hosts: dict[str, None] = field(default_factory=dict)
    roots: set[str] = field(default_factory=set)
    wordings: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, host: str, finding: Finding, is_primary: bool) -> None:
        """Take note of one host's finding."""
        self.hosts[host] = None
        names = self.wordings[finding.message]
        if host not in names[-1:]:
            names.append(host)
        if is_primary:
            self.roots.add(host)
            self.example = finding

    @property
    def most_said(self) -> list[tuple[str, list[str]]]:
        """Wordings with their hosts, the most frequent first."""
        return sorted(self.wordings.items(), key=lambda pair: (-len(pair[1]), pair[0]))


def faults(fleet: Fleet, with_notes: bool = False) -> list[Fault]:
    """Errors and warnings by rule: the most severe first, then those of the most hosts."""
    found: dict[tuple[str, Severity], Fault] = {}
    for report in fleet.hosts:
        for target in report.diagnosis.targets:
            for finding in target.findings:
                if finding.severity is Severity.INFO and not with_notes:
                    continue
                key = (finding.code, finding.severity)
                fault = found.setdefault(key, Fault(finding))
                fault.add(report.name, finding, finding is target.primary)
    return sorted(found.values(), key=_rank)


def _rank(fault: Fault) -> tuple[int, int, int, str]:
    return (
        -fault.example.severity.weight,
        -len(fault.roots),
        -len(fault.hosts),
        fault.example.code,
    )


def verdicts(fleet: Fleet) -> dict[Verdict, int]:
    """How many hosts have each verdict, failures first; verdicts that no host has are left out."""
    counted = Counter(report.diagnosis.verdict for report in fleet.hosts)
    order = (Verdict.FAIL, Verdict.CANNOT_TELL, Verdict.PASS, Verdict.NOTHING_TO_JUDGE)
    return {verdict: counted[verdict] for verdict in order if counted[verdict]}


def main_cause(report: Report) -> Finding | None:
    """The primary finding of the worst target."""
    found = [t.primary for t in report.diagnosis.targets if t.primary]
    return min(found, key=lambda f: -f.severity.weight, default=None)


def spread(fleet: Fleet) -> dict[str, Counter[str]]:
    """For each kind of version the values and how many hosts have them."""
    found: dict[str, Counter[str]] = {name: Counter() for name in _SPREAD}
    for report in fleet.hosts:
        for name, value in versions(report.facts):
            found[name][value] += 1
    return {name: counted for name, counted in found.items() if counted}


def versions(facts: Facts) -> Iterator[tuple[str, str]]:
    """What one host adds to the spread: kinds and values, each once."""
    for name, read in _SPREAD.items():
        for value in dict.fromkeys(read(facts)):
            yield name, value


def _driver(facts: Facts) -> Iterable[str]:
    return [str(facts.nvidia.driver.value)] if facts.nvidia.driver.is_known else []


def _cuda(facts: Facts) -> Iterable[str]:
    return [str(facts.nvidia.cuda_driver_api.value)] if facts.nvidia.cuda_driver_api.value else []


def _devices(facts: Facts) -> Iterable[str]:
    return [devices_in_words(facts)] if facts.devices.is_known else []


def _os(facts: Facts) -> Iterable[str]:
    return [os_in_words(facts)] if facts.host.os.is_known else []


def _kernel(facts: Facts) -> Iterable[str]:
    return [facts.host.kernel.value] if facts.host.kernel.value else []


def _torch(facts: Facts) -> Iterable[str]:
    return [str(s.torch.value.version) for s in facts.scopes if s.torch.value]


def _engines(facts: Facts) -> Iterable[str]:
    wanted = [f"{w.engine} {w.version.value or ''}".strip() for w in facts.workloads if w.engine]
    names = {w.engine for w in facts.workloads}
    return [*wanted, *_installed(facts, names)]


def _installed(facts: Facts, skipped: set[str]) -> Iterable[str]:
    for scope in facts.scopes:
        for package in scope.packages.value or ():
            if package.name not in skipped and package.name != "torch":
                yield f"{package.name} {package.version or ''}".strip()


# By the words that the filter of the page understands: "driver=550.54.14".
_SPREAD: dict[str, Callable[[Facts], Iterable[str]]] = {
    "devices": _devices,
    "driver": _driver,
    "cuda": _cuda,
    "system": _os,
    "kernel": _kernel,
    "torch": _torch,
    "engine": _engines,
}
