"""Profiles of the driver alone, and what an engine's profile may say of the driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.profile.read import find_profile, parse_profile
from doctor.provision.asked import Asked, read_order

HEAD = "schema: doctor/profile/v1\nname: x\naccelerator: {vendor: nvidia}\n"
ENGINE = HEAD + "engine: {name: vllm}\ninstall: {method: venv, requirements: [vllm]}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD, "nothing is wanted of the driver either"),
        (HEAD + "driver: {policy: install}\n", "driver.branch is missing"),
        (HEAD + "driver: {policy: recommend, branch: 580}\n", "engine is missing"),
        (
            HEAD + "driver: {policy: install, branch: 580}\ninstall: {method: venv, "
            "requirements: [vllm]}\n",
            "install and model belong to an engine",
        ),
        (HEAD + "driver: {policy: install, branch: 58}\n", "driver.branch"),
        (HEAD + "hold: {driver: true, packages: ['../x']}\n", "hold.packages"),
    ],
)
def test_what_a_profile_of_a_driver_may_not_say(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words.replace(".", r"\.")):
        parse_profile(text, "x.yaml")


@pytest.mark.parametrize(
    "more", ["driver: {policy: install, branch: 580}\n", "hold: {driver: true}\n"]
)
def test_a_profile_of_the_driver_alone(more: str) -> None:
    assert parse_profile(HEAD + more, "x").is_driver_alone
    assert not parse_profile(ENGINE + more, "x").is_driver_alone


def test_who_asks_for_the_driver(tmp_path: Path) -> None:
    alone, engine = tmp_path / "driver.yaml", tmp_path / "engine.yaml"
    alone.write_text(HEAD + "hold: {driver: true}\n")
    engine.write_text(ENGINE + "driver: {policy: install, branch: 580}\n")
    assert Asked("nvidia-driver").wants_driver
    assert Asked(str(alone)).wants_driver
    assert Asked(str(engine), driver=True).wants_driver
    assert not Asked(str(engine)).wants_driver
    assert {Asked("nvidia-driver").service, Asked(str(alone)).service} == {"nvidia-driver"}
    assert Asked(str(engine)).service == "x"


def test_a_driver_is_the_machines() -> None:
    assert find_profile("nvidia-driver").hold.driver
    order = read_order(Asked("nvidia-driver", on="docker://box"), lambda _: None)
    assert order.driver
    assert order.service == "docker://box/nvidia-driver"
    with pytest.raises(UsageError, match="machine's"):
        read_order(Asked("nvidia-driver", user=True), lambda _: None)
