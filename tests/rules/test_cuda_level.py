"""How builds load on drivers, what labels say, and what images ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.facts import Version
from doctor.matrix import load_matrix
from doctor.rules.builds import cuda_of_label, is_without_cuda
from doctor.rules.cuda_level import Load, relation
from doctor.rules.cuda_major import major_of_soname
from doctor.rules.image_facts import satisfied


@pytest.mark.parametrize(
    ("runtime", "offered", "driver", "load"),
    [
        ("12.8", "13.0", "580.95.05", Load.FULL),
        ("12.8", "12.8", "570.124.06", Load.FULL),
        ("12.8", "12.2", "535.183.01", Load.MINOR),
        ("11.8", "11.0", "450.51.06", Load.BELOW_FLOOR),
        ("13.0", "12.4", "550.54.15", Load.NEWER_MAJOR),
        ("10.2", "10.1", "418.226.00", Load.NEWER_MAJOR),
        ("12.4", "12.0", "525.*", None),
        ("12.*", "12.2", "535.183.01", Load.MINOR),
        ("12.*", "13.0", "580.95.05", Load.FULL),
        ("12.4.131", "12.4", "550.54.14", Load.FULL),
        ("12.8", ">=13.0", ">=580", Load.FULL),
        ("13.2", ">=13.0", ">=580", None),
    ],
)
def test_relation(runtime: str, offered: str, driver: str, load: Load | None) -> None:
    found = relation(Version(runtime), Version(offered), Version(driver), load_matrix())
    assert found is load


@pytest.mark.parametrize(
    ("label", "cuda"),
    [
        ("cu128", "12.8"),
        ("cu118", "11.8"),
        ("cu12", "12.*"),
        ("rc1.cu130", "13.0"),
        ("g93a2.cuda12.8", "12.8"),
        ("cu12torch2.8", "12.*"),
        ("cpu", None),
        ("rocm6.4", None),
        ("git7e17ec0", None),
        ("", None),
    ],
)
def test_cuda_of_label(label: str, cuda: str | None) -> None:
    found = cuda_of_label(label)
    assert (str(found) if found else None) == cuda


@given(st.text(max_size=60))
def test_labels_of_any_text(text: str) -> None:
    cuda_of_label(text)
    is_without_cuda(text)


@pytest.mark.parametrize(
    ("name", "major"),
    [
        ("libcudart.so.12", 12),
        ("libcublasLt.so.13", 13),
        ("libnvrtc.so.12", 12),
        ("libcufft.so.11", None),
        ("libcudnn.so.9", None),
        ("libcuda.so.1", None),
    ],
)
def test_major_of_soname(name: str, major: int | None) -> None:
    assert major_of_soname(name) == major


BASE = "cuda>=12.6 brand=tesla,driver>=550,driver<551 brand=unknown,driver>=470,driver<471"


@pytest.mark.parametrize(
    ("text", "cuda", "driver", "brands", "answer"),
    [
        (BASE, "12.8", "570.86.15", (), True),
        (BASE, "12.4", "550.54.15", ("tesla",), True),
        (BASE, "12.4", "550.54.15", ("geforce",), False),
        (BASE, "12.4", "550.54.15", (), None),
        (BASE, "12.4", "550.54.15", ("tesla", "nvidia"), None),
        ("cuda>=13 brand=tesla brand=nvidia", "12.4", "550.54.15", ("tesla", "nvidia"), True),
        (BASE, "12.2", "535.183.01", ("tesla",), False),
        ("cuda>=12.6", "12.4", None, (), False),
        ("cuda>=12.6", None, "570.86.15", (), None),
        ("brand!=geforce", None, None, ("tesla",), True),
        ("cuda>=12.6,driver>=560", "12.8", "550.54.15", (), False),
        ("nonsense", "12.8", "570.86.15", (), None),
    ],
)
def test_requirement_of_an_image(
    text: str,
    cuda: str | None,
    driver: str | None,
    brands: tuple[str, ...],
    answer: bool | None,
) -> None:
    found = satisfied(text, Version.maybe(cuda), Version.maybe(driver), brands)
    assert found is answer


@given(st.text(max_size=200))
def test_requirement_of_any_text(text: str) -> None:
    assert satisfied(text, Version("12.4"), Version("550.54.15"), ("tesla",)) in (True, False, None)
