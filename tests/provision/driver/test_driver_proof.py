"""A driver is proven layer by layer: skipped is not passed, and failed says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from doctor.facts import Device, Facts, NvidiaFacts, Reading, Version, missing, seen
from doctor.facts.host import HostFacts
from doctor.facts.reading import Missing
from doctor.provision.driver.proof import Layer, layers, words_of
from doctor.provision.driver.sets import DriverState
from tests.provision.driver.made import driver_set, rows, state
from tests.provision.driver.repository import suffixed

V = "580.95.05"
PACKAGES = rows(*suffixed(V))
SET = driver_set(*PACKAGES, builds=True)
GOOD = state(*PACKAGES, holds=SET.holds, modules={"/m/nvidia.ko": V})


def version(text: str = V) -> Reading[Version]:
    return seen(Version.parse(text), "test")


CARD = Device(id="gpu0", vendor="nvidia")
NVIDIA = NvidiaFacts(driver=version(), userspace=version(), smi_driver=version(),
                     nvml_devices=seen(1, "test"), cuda_driver_api=version("13.0"))  # fmt: skip
FULL = Facts(devices=seen((CARD,), "test"), nvidia=NVIDIA)


def states(there: DriverState, facts: Facts) -> dict[str, Layer]:
    return {layer.name.split(" for ")[0]: layer.state for layer in layers(SET, there, facts)}


def test_all_is_shown_on_a_machine_with_a_card() -> None:
    assert set(states(GOOD, FULL).values()) == {Layer.PASSED}
    assert "only in part" not in words_of(layers(SET, GOOD, FULL))


def test_without_a_card_the_upper_layers_are_skipped_and_that_is_said() -> None:
    bare = Facts(devices=seen((), "test"))
    found = states(GOOD, bare)
    assert found["packages"] is found["module"] is Layer.PASSED
    assert found["loaded module"] is found["CUDA call"] is Layer.SKIPPED
    assert words_of(layers(SET, GOOD, bare)).startswith("only in part")


def test_not_knowing_of_cards_is_no_absence() -> None:
    unknown = Facts(devices=missing(Missing.TIMED_OUT))
    assert "not known" in words_of(layers(SET, GOOD, unknown))


@pytest.mark.parametrize(
    ("change", "layer"),
    [
        ({"driver": version("570.86.10")}, "loaded module"),
        ({"driver": missing(Missing.NOT_THERE)}, "loaded module"),
        ({"userspace": version("570.86.10")}, "libraries"),
        ({"smi_driver": version("570.86.10")}, "nvidia-smi"),
        ({"nvml_devices": seen(0, "test")}, "devices"),
    ],
)
def test_each_layer_can_fail(change: dict[str, object], layer: str) -> None:
    facts = replace(FULL, nvidia=replace(NVIDIA, **change))  # type: ignore[arg-type]
    assert states(GOOD, facts)[layer] is Layer.FAILED


@pytest.mark.parametrize(
    ("there", "layer"),
    [
        (state(*PACKAGES[1:], holds=SET.holds, modules={"m": V}), "packages"),
        (state(*PACKAGES, modules={"m": V}), "packages"),
        (state(*PACKAGES, holds=SET.holds, broken=("x",), modules={"m": V}), "packages"),
        (state(*PACKAGES, holds=SET.holds, modules={"m": "570.86.10"}), "module"),
        (state(*PACKAGES, holds=SET.holds), "module"),
    ],
)
def test_packages_and_the_module_on_disk(there: DriverState, layer: str) -> None:
    assert states(there, FULL)[layer] is Layer.FAILED


def test_with_secure_boot_a_module_without_a_signature_is_none() -> None:
    wanted = driver_set(*PACKAGES, builds=True, needs_key=True)
    signed = state(*PACKAGES, holds=SET.holds, modules={"m": V}, signers={"m": "a key"})
    assert layers(wanted, GOOD, FULL)[1].state is Layer.FAILED
    assert layers(wanted, signed, FULL)[1].text == f"{V}, signed by a key"


def test_a_container_has_no_kernel_of_its_own() -> None:
    there = state(*PACKAGES, holds=SET.holds)
    inside = replace(FULL, host=HostFacts(platform=seen("container", "test")))
    signed = driver_set(*PACKAGES)
    assert layers(signed, there, inside)[1].state is Layer.SKIPPED
    assert states(there, inside)["module"] is Layer.FAILED, "what is built there must be there"


def test_a_driver_that_is_only_held_need_not_work() -> None:
    held = driver_set(*PACKAGES, scheme="installed")
    there = state(*PACKAGES, holds=held.holds)
    assert Layer.FAILED not in {layer.state for layer in layers(held, there, FULL)}
