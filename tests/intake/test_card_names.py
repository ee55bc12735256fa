"""Names of cards as people write them: the same card whichever way, and never a guess."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.intake.card_names import apart, counted, memory_in, vendor_of
from doctor.intake.field_report import read_field_report
from doctor.matrix import load_matrix
from doctor.matrix.amd_products import of_product
from doctor.rules import cards, npus

MATRIX = load_matrix()
COUNTS = ("{n}x {name}", "{n}x{name}", "{n} x {name}", "{n}*{name}", "{name} x {n}", "{name} x{n}",
          "{name}*{n}", "{n} {name}", "{word} {name}", "{word} {name}s")  # fmt: skip
WORDS = {2: "two", 4: "four", 8: "eight"}
GEFORCE = [g for g in MATRIX.gpus.gpus if g.gpu_class == "geforce" and g.key.startswith("rtx-")]
NVIDIA = [
    g for g in MATRIX.gpus.gpus if g.capability and len(g.names) == 1 and g.names[0].isascii()
]


def devices(name: str) -> tuple[object, ...]:
    return read_field_report({"gpus": [{"name": name}]}).devices.value or ()


def capabilities(name: str) -> set[str]:
    return {str(cards.capability(d, MATRIX).value) for d in devices(name)}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["3090", "A100", "RTX 4090", "MI300X", "910B3", "7900 XTX", "T4"])
@pytest.mark.parametrize("form", COUNTS)
@pytest.mark.parametrize("count", WORDS)
def test_a_count_in_every_form(form: str, name: str, count: int) -> None:
    if form == "{n} {name}" and name[0].isdigit():
        name = f"RTX {name}"  # "2 3090" is not written
    text = form.format(n=count, name=name, word=WORDS[count])
    assert counted(text) == (name, count), text


@pytest.mark.parametrize(
    "name",
    ["7900 XTX", "7900XT", "RX 580", "RX7900XTX", "RTX 5090", "GTX970", "MX450", "Max 1100", "TX2",
     "Ryzen AI 9 HX 370", "Flex 170", "9070 XT 16GB", "K20X"],
)  # fmt: skip
def test_an_x_that_belongs_to_the_name(name: str) -> None:
    assert counted(name) == (name, None)


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("GTX2080 Ti", "7.5"),
        ("GTX 3090", "8.6"),
        ("RTX 1080 Ti", "6.1"),
        ("A 100", "8.0"),
        ("a100_80g", "8.0"),
        ("A100-PG509-200", "8.0"),
        ("TeslaV100-SXM2-32GB", "7.0"),
        ("4080S", "8.9"),
        ("4070TiS", "8.9"),
        ("RTX A6000 Ada", "8.9"),
        ("A6000", "8.6"),
        ("CMP170HX", "8.0"),
        ("EVGA RTX 3090 FTW3", "8.6"),
        ("MSI GeForce RTX 4090 Suprim X", "8.9"),
        ("H20-3e", "9.0"),
        ("RTX 6000", "None"),
        ("RTX 5000", "None"),
        ("Titan X", "None"),
    ],
)
def test_the_capability_that_a_name_gives(name: str, capability: str) -> None:
    assert capabilities(name) == {capability}


@pytest.mark.parametrize(
    ("entry", "capability"),
    [
        ({"name": "RTX 5000", "memory_gib": 16}, "7.5"),
        ({"name": "RTX 5000", "memory_gib": 31.5}, "8.9"),
        ({"name": "RTX 6000", "memory_gib": 24}, "7.5"),
        ({"name": "RTX 6000 48GB"}, "8.9"),
        ({"name": "RTX 4000", "memory_gib": 8}, "7.5"),
        ({"name": "RTX 6000", "compute_capability": "8.9"}, "8.9"),
        ({"name": "RTX 6000", "memory_gib": 7}, "None"),
    ],
)
def test_memory_or_capability_decide_between_namesakes(
    entry: dict[str, object], capability: str
) -> None:
    (device,) = read_field_report({"gpus": [entry]}).devices.value or ()
    assert str(cards.capability(device, MATRIX).value) == capability
    assert {g.capability for g in MATRIX.gpus_matching(device)} == {
        capability
    } or capability == "None"


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(GEFORCE), st.sampled_from(list(product((True, False), repeat=4))))
def test_a_geforce_is_itself_with_and_without_its_words(
    gpu: object, choice: tuple[bool, ...]
) -> None:
    family, glued, plain, upper = choice
    name = getattr(gpu, "key").removeprefix("rtx-").replace("-", " ")  # noqa: B009
    name = f"{'GTX' if plain else 'RTX'} {name}" if family else name
    name = name.replace(" ti", "ti") if glued else name
    name = name.upper() if upper else name
    assert capabilities(name) == {getattr(gpu, "capability")}, name  # noqa: B009


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(NVIDIA), st.sampled_from(COUNTS[:7]), st.integers(1, 16))
def test_a_count_never_changes_the_card(gpu: object, form: str, count: int) -> None:
    name = getattr(gpu, "names")[0]  # noqa: B009
    found = devices(form.format(n=count, name=name, word=""))
    assert len(found) == count
    assert {d.vendor for d in found} == {"nvidia"}  # type: ignore[attr-defined]
    assert getattr(gpu, "capability") in capabilities(name)  # noqa: B009


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        ("7900XTX", "amd"),
        ("9070 XT", "amd"),
        ("6800 XT", "amd"),
        ("W7900", "amd"),
        ("Radeon Pro VII", "amd"),
        ("780M", "amd"),
        ("8060S", "amd"),
        ("AI Max+ 395", "amd"),
        ("4080S", "nvidia"),
        ("GTX 860M", "nvidia"),
        ("A30", "nvidia"),
        ("M40", "nvidia"),
        ("L20", "nvidia"),
        ("Arc A770", "intel"),
        ("B60", "intel"),
        ("UHD 770", "intel"),
        ("M2", "apple"),
        ("910B3", "ascend"),
        ("昇腾910B", "ascend"),
        ("300I Duo", "ascend"),
        ("MLU370-X8", "cambricon"),
        ("BI-V100", "other"),
        ("MetaX C500", "other"),
        ("Moore Threads S4000", "other"),
    ],
)
def test_the_maker_of_a_name(name: str, vendor: str) -> None:
    assert vendor_of(name) == vendor


@pytest.mark.parametrize(
    ("name", "gfx"),
    [
        ("7900XTX", "gfx1100"),
        ("RX7900XT", "gfx1100"),
        ("AMD 9070 XT", "gfx1201"),
        ("W7900", "gfx1100"),
        ("780M", "gfx1103"),
        ("Vega64", "gfx900"),
        ("Ryzen AI Max+ 395", "gfx1151"),
        ("MI300X", "gfx942"),
        ("RX 9999", None),
        ("XTX", None),
    ],
)
def test_the_target_of_an_amd_name(name: str, gfx: str | None) -> None:
    assert of_product(MATRIX, name) == gfx


@pytest.mark.parametrize(
    ("name", "generation"),
    [
        ("910B3", "A2"),
        ("Ascend 910B4-1", "A2"),
        ("NPU 910B3 64G", "A2"),
        ("910B 64GB", "A2"),
        ("910B", ""),
        ("910ProB", "910"),
        ("Atlas 300I Duo", "310P"),
        ("300I DUO", "310P"),
        ("Atlas 800I A3", "A3"),
        ("Orange Pi 310B", "310B"),
        ("Atlas 800", ""),
    ],
)
def test_the_generation_of_an_ascend_name(name: str, generation: str) -> None:
    (device,) = devices(name)
    assert npus.generation(device, MATRIX) == generation  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("A100-80G", 80),
        ("2080 Ti 22G", 22),
        ("RTX 4090 (48GB)", 48),
        ("A100-SXM4-80GB MIG 3g.40gb", 40),
        ("8x H100 640GB total", None),
        ("GTX 1080", None),
    ],
)
def test_memory_that_a_name_states(name: str, gib: int | None) -> None:
    assert memory_in(name) == (None if gib is None else gib * 1024)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("2x RTX 5090 + 1x RTX 3090", ["RTX 5090", "RTX 5090", "RTX 3090"]),
        ("RTX 3090 and RTX 4090", ["RTX 3090", "RTX 4090"]),
        ("RTX 4090, 24GB", ["RTX 4090, 24GB"]),
        ("GB10 (Grace Blackwell, 128GB)", ["GB10 (Grace Blackwell, 128GB)"]),
    ],
)
def test_cards_that_one_line_names_together(text: str, names: list[str]) -> None:
    assert [d.name.value for d in devices(text)] == names  # type: ignore[attr-defined]


@given(st.text(max_size=200))
def test_no_name_raises(text: str) -> None:
    name, count = counted(text)
    assert name or not text
    assert count is None or count >= 0
    assert isinstance(vendor_of(text), str)
    assert apart(text)
    memory_in(text)
