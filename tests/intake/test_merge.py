from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.facts import (
    Device,
    Facts,
    HostFacts,
    Missing,
    NvidiaFacts,
    Package,
    Scope,
    Version,
    missing,
    seen,
)
from doctor.intake.merge import merge


def _driver(text: str) -> Facts:
    return Facts(nvidia=NvidiaFacts(driver=seen(Version(text), text)))


def test_later_facts_fill_gaps() -> None:
    merged = merge(_driver("550.54.15"), Facts(host=HostFacts(kernel=seen("6.8.0"))))
    assert merged.nvidia.driver.value == Version("550.54.15")
    assert merged.host.kernel.value == "6.8.0"
    assert merged.notes == ()


def test_of_two_that_differ_the_first_stays_with_a_note() -> None:
    merged = merge(_driver("550.54.15"), _driver("535.129.03"))
    assert merged.nvidia.driver.value == Version("550.54.15")
    assert merged.notes == ("nvidia.driver is 550.54.15 or 535.129.03: took the first",)


def test_the_more_exact_of_two_versions_stays_without_a_note() -> None:
    merged = merge(_driver("550.*"), _driver("550.54.15"))
    assert merged.nvidia.driver.value == Version("550.54.15")
    assert merged.notes == ()


def test_a_reason_says_more_than_silence_and_less_than_a_value() -> None:
    absent = Facts(nvidia=NvidiaFacts(driver=missing(Missing.NOT_THERE, "nvidia-smi")))
    assert merge(Facts(), absent).nvidia.driver.is_absent
    assert merge(absent, _driver("550.54.15")).nvidia.driver.is_known


def test_devices_join_by_their_place_on_the_bus() -> None:
    first = Device(
        "gpu0", "nvidia", pci=seen("0000:18:00.0"), name=seen("NVIDIA RTX 6000 Ada Gene...")
    )
    second = Device(
        "gpu3", "nvidia", pci=seen("0000:18:00.0"), name=seen("NVIDIA RTX 6000 Ada Generation")
    )
    merged = merge(Facts(devices=seen((first,))), Facts(devices=seen((second,))))
    assert [d.id for d in merged.devices.value or ()] == ["gpu0"]
    assert (merged.devices.value or ())[0].name.value == "NVIDIA RTX 6000 Ada Generation"
    assert merged.notes == ()


def test_a_stated_size_of_memory_gives_way_to_the_measured_one() -> None:
    stated = Facts(devices=seen((Device("gpu0", "nvidia", memory_mib=seen(81920)),)))
    measured = Facts(devices=seen((Device("gpu0", "nvidia", memory_mib=seen(81559)),)))
    merged = merge(stated, measured)
    assert (merged.devices.value or ())[0].memory_mib.value == 81559
    assert merged.notes == ()


def test_a_whole_list_beside_a_partial_one_is_whole() -> None:
    few = Scope("reported", "venv", packages=seen((Package("torch"),), "notes", partial=True))
    all_of_them = Scope("reported", "container", packages=seen((Package("numpy"),), "pip list"))
    scope = merge(Facts(scopes=(few,)), Facts(scopes=(all_of_them,))).scopes[0]
    assert [p.name for p in scope.packages.value or ()] == ["torch", "numpy"]
    assert not scope.packages.partial
    assert scope.kind == "container"
    assert scope.lacks("vllm") is True


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["550.*", "550.54.15", "535.129.03", ">=500"]), max_size=4))
def test_merging_with_oneself_changes_nothing(texts: list[str]) -> None:
    facts = merge(*map(_driver, texts))
    assert merge(facts, facts) == facts
    assert merge(facts, Facts()) == facts
    assert merge(Facts(), facts).nvidia == facts.nvidia
