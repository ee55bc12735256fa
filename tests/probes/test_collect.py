"""Collecting everything: this machine, an empty one, and one whose probes fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doctor.facts import Facts, HostFacts, Missing, to_wire
from doctor.probes.collect import PROBES, Options, Probe, collect
from doctor.probes.host import Host
from doctor.probes.local import LocalHost
from doctor.probes.recorded import RecordedHost
from tests.probes.written import write_host


@pytest.mark.real
def test_this_machine() -> None:
    facts = collect(LocalHost(), Options())
    assert facts.notes == ()
    assert facts.host.os.is_known
    assert facts.host.arch.is_known
    assert facts.scope("host") is not None
    assert json.loads(json.dumps(to_wire(facts)))["schema"] == "doctor/facts/v1"


def test_a_host_of_which_nothing_is_known(tmp_path: Path) -> None:
    facts = collect(write_host(tmp_path, host={"unlisted": "not-stated"}), Options())
    assert facts.notes == ()
    assert not facts.devices.is_known
    assert not facts.devices.is_absent
    assert facts.host.packages.missing is Missing.NOT_STATED


def test_a_host_without_anything(tmp_path: Path) -> None:
    facts = collect(RecordedHost(str(tmp_path)), Options())
    assert facts.notes == ()
    assert [scope.id for scope in facts.scopes] == ["host"]


def _fails(host: Host, options: Options, facts: Facts) -> Facts:
    raise KeyError("oops")


def test_one_failing_probe_leaves_the_others(tmp_path: Path) -> None:
    broken = Probe("broken", _fails, ("host.cpu.flags", "devices"))
    host = write_host(tmp_path, {"/etc/os-release": "ID=debian\n"})
    facts = collect(host, Options(), (broken, *PROBES[:1]))
    assert facts.notes == ("probe broken failed: KeyError('oops')",)
    assert facts.host.cpu.flags.missing is Missing.NOT_READABLE
    assert facts.devices.missing is Missing.NOT_READABLE
    assert facts.host.os.is_known


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_every_probe_names_facts_that_exist(probe: Probe) -> None:
    for path in probe.fills:
        record: object = Facts()
        for name in path.split("."):
            record = getattr(record, name)
        assert type(record).__name__ == "Reading"


def test_the_host_probes_fill_what_they_say(tmp_path: Path) -> None:
    filled = {path.split(".")[1] for p in PROBES for path in p.fills if path.startswith("host.")}
    assert filled <= set(vars(HostFacts()))
