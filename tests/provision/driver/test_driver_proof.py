"""A driver is proven layer by layer: skipped is not passed, and failed says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from doctor.facts import Device, Facts, Mig, NvidiaFacts, Reading, Version, missing, seen
from doctor.facts.host import HostFacts
from doctor.facts.reading import Missing
from doctor.provision.driver.proof import Layer, layers, words_of
from doctor.provision.driver.sets import DriverState
from doctor.provision.driver.use import Asked, Use
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
                     nvml_devices=seen(1, "test"))  # fmt: skip
FULL = Facts(devices=seen((CARD,), "test"), nvidia=NVIDIA)
WORKS = Asked(count=1, skipped="")
USED = Use(call=WORKS, container=WORKS)


def states(there: DriverState, facts: Facts, use: Use = USED) -> dict[str, Layer]:
    return {layer.name.split(" for ")[0]: layer.state for layer in layers(SET, there, facts, use)}


def test_from_the_packages_up_to_a_cuda_call() -> None:
    found = states(GOOD, FULL)
    assert tuple(found) == (
        "packages", "module", "loaded module", "libraries", "fabric manager", "nvidia-smi",
        "devices", "container", "CUDA call", "smoke",
    )  # fmt: skip
    assert found.pop("smoke") is Layer.SKIPPED, "no engine was asked"
    assert set(found.values()) == {Layer.PASSED}


def test_what_was_skipped_is_not_passed() -> None:
    text = words_of(layers(SET, GOOD, FULL, Use()))
    assert text.startswith("only in part")
    assert "container skipped (nobody asked); CUDA call skipped (nobody asked)" in text


@pytest.mark.parametrize(
    ("use", "layer"),
    [
        (Use(call=Asked(fault="cuInit answers 803", skipped=""), container=WORKS), "CUDA call"),
        (Use(call=Asked(skipped=""), container=WORKS), "CUDA call"),
        (Use(call=WORKS, container=Asked(fault="no device", skipped="")), "container"),
    ],
)
def test_programs_that_get_no_gpu_are_a_failure(use: Use, layer: str) -> None:
    found = states(GOOD, FULL, use)
    assert [name for name, state in found.items() if state is Layer.FAILED] == [layer]


def test_a_card_in_parts_has_no_device_until_somebody_makes_one() -> None:
    nothing = Use(call=Asked(fault="cuInit answers 100", skipped="", code=100))
    parted = Device(id="gpu0", vendor="nvidia", mig=seen(Mig(enabled=True), "test"))
    in_parts = replace(FULL, devices=seen((parted,), "test"))
    assert states(GOOD, FULL, nothing)["CUDA call"] is Layer.FAILED
    assert states(GOOD, in_parts, nothing)["CUDA call"] is Layer.SKIPPED


def test_without_a_card_the_upper_layers_are_skipped_and_that_is_said() -> None:
    bare = Facts(devices=seen((), "test"))
    found = states(GOOD, bare)
    assert found["packages"] is found["module"] is Layer.PASSED
    above = [layer for name, layer in found.items() if name not in ("packages", "module")]
    assert above.count(Layer.SKIPPED) == len(above) - 1, "all but the manager's package"
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
        (state(*PACKAGES, holds=SET.holds, leaving=("x",), modules={"m": V}), "packages"),
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
