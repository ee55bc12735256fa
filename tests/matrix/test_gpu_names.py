"""GPUs by PCI id and by the names that people write."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.facts import Device, seen
from doctor.matrix import load_matrix
from doctor.matrix.gpu_names import words

MATRIX = load_matrix()


def keys(name: str) -> set[str]:
    return {gpu.key for gpu in MATRIX.gpus_named(name)}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("GeForce RTX 3090", "rtx-3090"),
        ("RTX 4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("4090", "rtx-4090"),
        ("RTX 4090 (24GB)", "rtx-4090"),
        ("4090D", "rtx-4090-d"),
        ("3080ti", "rtx-3080-ti"),
        ("RTX 4070Ti Super", "rtx-4070-ti-super"),
        ("2x RTX 3090", "rtx-3090"),
        ("RTX 3090 x2", "rtx-3090"),
        ("RTX 3080 12GB", "rtx-3080"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("4 x A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("H100 SXM", "h100-sxm"),
        ("H100 SXM5 80GB", "h100-sxm"),
        ("H100 PCIe", "h100-pcie"),
        ("A10 (vGPU)", "a10"),
        ("NVIDIA A10-24Q", "a10"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-sxm4-40gb"),
        ("A6000", "rtx-a6000"),
        ("RTX 6000 Ada", "rtx-6000-ada"),
        ("GB10", "gb10"),
        ("DGX Spark", "gb10"),
        ("T4", "t4"),
        ("L40S", "l40s"),
        ("Titan V", "titan-v"),
    ],
)
def test_a_name_that_means_one_product(name: str, key: str) -> None:
    assert keys(name) == {key}


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("V100", "7.0"),
        ("A100", "8.0"),
        ("A100 80GB", "8.0"),
        ("8 x H100", "9.0"),
        ("H100x8", "9.0"),
        ("GH200", "9.0"),
        ("RTX PRO 6000", "12.0"),
        ("Jetson AGX Orin 64GB", "8.7"),
        ("Orin (nvgpu)", "8.7"),
        ("RTX 3070 Laptop", "8.6"),
        ("Quadro P2000", "6.1"),
    ],
)
def test_products_that_agree_on_the_capability(name: str, capability: str) -> None:
    assert {gpu.capability for gpu in MATRIX.gpus_named(name)} == {capability}


def test_a_name_that_fits_two_generations_has_no_capability() -> None:
    device = Device(id="gpu0", vendor="nvidia", name=seen("RTX 6000", "report"))
    assert len({gpu.capability for gpu in MATRIX.gpus_matching(device)}) > 1
    assert MATRIX.capability_of(device) is None


@pytest.mark.parametrize(
    "name", ["", "NVIDIA", "GPU", "RTX", "NVIDIA Graphics Device", "RTX 5099", "MI300X", "7900 XTX"]
)
def test_a_name_that_fits_nothing(name: str) -> None:
    assert MATRIX.gpus_named(name) == ()


@given(st.lists(st.sampled_from(sorted("abcdefghijklmnopqrstuvwxyz0123456789")), max_size=4))
def test_letters_and_figures_alone_are_no_product(letters: list[str]) -> None:
    for name in (" ".join(letters), "/".join(letters), f"gpu {' '.join(letters)}"):
        found = MATRIX.gpus_named(name)
        # "A 2" is how people write A2.
        assert not found or any(a.isalpha() and b.isdigit() for a, b in pairwise(letters))


def test_another_vendor_is_no_nvidia_product() -> None:
    device = Device(id="gpu0", vendor="amd", name=seen("RTX 4090", "report"))
    assert MATRIX.gpus_matching(device) == ()


@pytest.mark.parametrize(
    ("subsystem", "name", "key"),
    [
        ("10de:157e", "", "a2"),
        ("10de:14a9", "", "a16"),
        ("", "NVIDIA A16", "a16"),
        ("10de:ffff", "NVIDIA A2", "a2"),
    ],
)
def test_a_shared_device_id_is_told_apart(subsystem: str, name: str, key: str) -> None:
    gpu = MATRIX.gpu("10de:25b6", subsystem, name)
    assert gpu is not None
    assert gpu.key == key


def test_a_shared_device_id_alone_is_no_product() -> None:
    assert MATRIX.gpu("10de:25b6") is None
    device = Device(id="gpu0", vendor="nvidia", pci_id=seen("10DE:25B6", "sysfs"))
    assert {gpu.key for gpu in MATRIX.gpus_matching(device)} == {"a2", "a16"}
    assert str(MATRIX.capability_of(device)) == "8.6"


def test_every_nvml_name_finds_its_product() -> None:
    for gpu in MATRIX.gpus.gpus:
        for name in (*gpu.names, *gpu.aliases, gpu.key):
            assert gpu in MATRIX.gpus_named(name), name


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    words(text)
    assert isinstance(MATRIX.gpus_named(text), tuple)


@given(st.sampled_from(MATRIX.gpus.gpus), st.integers(1, 16))
def test_a_count_changes_nothing(gpu: object, count: int) -> None:
    for name in getattr(gpu, "names", ()):
        assert words(f"{count}x {name}") == words(name)
