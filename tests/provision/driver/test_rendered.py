"""Steps for machines that were never tried: made from facts, marked so, and fit for their roles."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from doctor.facts import Facts, seen
from doctor.facts.host import HostFacts, OsRelease
from doctor.matrix.packaging import schemes_for
from doctor.provision.driver.choose import Wish
from doctor.provision.driver.rendered import UNVERIFIED, dnf_steps
from doctor.provision.step import Step
from doctor.resources import resource
from tests.provision.driver.made import DCGM, MATRIX

KERNEL = "5.14.0-503.11.1.el9_5.x86_64"


def fits_its_role(step: Step) -> None:
    path = resource("playbooks", "roles", step.role, "meta", "argument_specs.yml")
    specs: dict[str, Any] = yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"]
    assert step.variables.keys() <= specs.keys(), step.name
    assert {n for n, o in specs.items() if o.get("required")} <= step.variables.keys()
    assert step.reason == UNVERIFIED
    assert step.actor == "a person"


def el(system: str, version: str) -> Facts:
    host = HostFacts(os=seen(OsRelease(system, version), "x"), kernel=seen(KERNEL, "x"),
                     arch=seen("x86_64", "x"))  # fmt: skip
    return Facts(host=host)


@pytest.mark.parametrize(
    ("system", "version", "stream", "key"),
    [
        ("rhel", "9.5", "580-open", "rhel9/x86_64/D42D0685"),
        ("rocky", "9.5", "580-open", "rhel9/x86_64/D42D0685"),
        ("rhel", "10.0", "", "rhel10/x86_64/CDF6BA43"),
        ("almalinux", "10.0", "", "rhel10/x86_64/CDF6BA43"),
    ],
)
def test_a_branch_by_dnf(system: str, version: str, stream: str, key: str) -> None:
    facts = el(system, version)
    wish = Wish(branch=580, modules="open", fabric=True)
    scheme = schemes_for(MATRIX, f"{system} {version}", 580)[0]
    steps = dnf_steps(scheme, wish, facts, MATRIX)
    for step in steps:
        fits_its_role(step)
    repository, install, hold = steps
    assert key in repository.variables["repositories_files"][0]["text"]
    assert install.variables["nvidia_driver_dnf_stream"] == stream
    assert "nvidia-fabricmanager" in install.variables["nvidia_driver_dnf_packages"]
    assert "libnvsdm" in hold.variables["driver_hold_hold"]


def test_dcgm_by_dnf_is_of_the_drivers_cuda_line() -> None:
    scheme = schemes_for(MATRIX, "rhel 9.5", 580)[0]
    wish = Wish(branch=580, modules="open", monitor=DCGM)
    step = dnf_steps(scheme, wish, el("rhel", "9.5"), MATRIX)[-1]
    fits_its_role(step)
    assert step.variables["dcgm_packages"][0] == "datacenter-gpu-manager-4-cuda13"
    assert step.variables["dcgm_conflicts"] == ["datacenter-gpu-manager"]
