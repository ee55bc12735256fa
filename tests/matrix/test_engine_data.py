"""Engine, package and accelerator domains: they load, name sources, say what was settled."""

from __future__ import annotations

import re

import pytest

from doctor.facts import Version
from doctor.matrix import load_matrix
from doctor.matrix.model import Claim, Release

MATRIX = load_matrix()


def claim(domain: str, claim_id: str) -> Claim:
    """One claim by id."""
    found = MATRIX.engine(domain)
    assert found is not None
    return next(c for c in found.claims if c.id == claim_id)


def release(domain: str, version: str) -> Release:
    """One release row."""
    row = MATRIX.release(domain, Version(version))
    assert row is not None, f"{domain} {version}"
    return row


def values(domain: str, kind: str, version: str, key: str | None = None) -> set[str]:
    """What all claims of a kind say about a version, conditions left aside."""
    return {m.claim.value for m in MATRIX.claims(domain, kind, Version(version), key)}


@pytest.mark.parametrize("name", MATRIX.engine_names)
def test_rows_are_sourced_and_dated(name: str) -> None:
    domain = MATRIX.engine(name)
    assert domain is not None
    assert domain.name == name
    for row in (*domain.releases, *domain.claims):
        assert row.source, row
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row.checked), row


@pytest.mark.parametrize("name", MATRIX.engine_names)
def test_releases_are_newest_first(name: str) -> None:
    domain = MATRIX.engine(name)
    assert domain is not None
    order = [Version(row.version).low for row in domain.releases]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("name", MATRIX.engine_names)
def test_texts_name_no_place_of_the_maker(name: str) -> None:
    domain = MATRIX.engine(name)
    assert domain is not None
    for row in domain.claims:
        assert not re.search(r"/home/|/tmp/|index file id", f"{row.text} {row.note} {row.source}")


@pytest.mark.parametrize(
    ("domain", "version", "cuda"),
    [
        ("sglang", "0.5.10", "12.9"),
        ("sglang", "0.5.11", "13"),
        ("tensorrt-llm", "1.1.0", "13"),
        ("onnxruntime", "1.26.0", "12"),
        ("onnxruntime", "1.27.0", "13"),
        ("tgi", "3.3.7", "12.4"),
        ("lmdeploy", "0.18.0", "12"),
    ],
)
def test_cuda_lines(domain: str, version: str, cuda: str) -> None:
    assert Version(release(domain, version).cuda or "0").major == Version(cuda).major


@pytest.mark.parametrize(
    ("domain", "version", "floor"),
    [
        ("sglang", "0.5.1", "7.5"),
        ("sglang", "0.5.23", "8.0"),
        ("lmdeploy", "0.18.0", "7.0"),
        ("onnxruntime", "1.20.0", "5.2"),
        ("onnxruntime", "1.26.0", "6.0"),
        ("onnxruntime", "1.31.1", "7.5"),
        ("tensorrt-llm", "1.2.1", "8.0"),
        ("xformers", "0.0.34", "7.5"),
        ("flash-attn", "2.8.3", "8.0"),
    ],
)
def test_measured_capability_floors(domain: str, version: str, floor: str) -> None:
    assert release(domain, version).min_capability == floor


def test_conflicts_are_settled() -> None:
    assert release("sglang", "0.5.23").pythons == ("cp311", "cp312", "cp313")
    assert release("sglang", "0.5.10.post1").pins["torch"] == "==2.9.1"
    assert release("vllm-ascend", "0.30.0rc1").extra["cann"] == "9.1.0"
    assert release("vllm-ascend", "0.23.0.post1").extra["cann"] == "9.1.0"
    assert release("mlx-lm", "0.32.2").requires_python == ">=3.11"
    assert release("tensorrt-llm", "1.1.0").pins["cuda-python"] == ">=13"


def test_companions_pair_with_one_torch() -> None:
    assert release("torchvision", "0.23.0").pins["torch"] == "==2.8.0"
    assert release("torchaudio", "2.8.0").pins["torch"] == "==2.8.0"
    assert release("torch-npu", "2.7.1.post2").pins["torch"] == "==2.7.1"
    assert release("xformers", "0.0.31").pins["torch"] == "==2.7.1"


def test_ollama_raised_its_driver_floor() -> None:
    assert values("ollama", "driver-floor", "0.30.0") == {"550", "570"}
    assert "570" not in values("ollama", "driver-floor", "0.24.0")


def test_kernels_that_call_newer_driver_functions() -> None:
    assert values("sglang", "driver-floor", "0.4.9.post4") == {"550.54.14"}
    assert not values("sglang", "driver-floor", "0.5.2")
    assert not values("lmdeploy", "driver-floor", "0.9.2")


def test_plans_of_tensorrt_llm_end_with_the_engine_builder() -> None:
    assert "required" in values("tensorrt-llm", "plan", "1.2.1")
    assert values("tensorrt-llm", "plan", "1.3.0rc24") == {"removed"}


@pytest.mark.parametrize(
    ("domain", "flag", "version", "value"),
    [
        ("sglang", "--enable-ep-moe", "0.5.4", "exists"),
        ("sglang", "--enable-ep-moe", "0.5.4.post1", "renamed"),
        ("sglang", "--nsa-decode-backend", "0.5.20", "renamed"),
        ("sglang", "--moe-runner-backend", "0.5.23", "exists"),
        ("lmdeploy", "--trust-remote-code", "0.12.0", "removed"),
        ("llama.cpp", "--no-mmap", "b10000", "exists"),
        ("llama.cpp", "--no-mmap", "b11549", "renamed"),
    ],
)
def test_flags_by_version(domain: str, flag: str, version: str, value: str) -> None:
    matches = MATRIX.claims(domain, "flag", Version(version), flag)
    assert [m.claim.value for m in matches] == [value]


@pytest.mark.parametrize(
    ("key", "version", "expected"),
    [
        ("trtllm_mha", "0.5.18", {"10.0|10.3"}),
        ("trtllm_mha", "0.5.19", {"9.0|10.0|10.3|12.0|12.1"}),
        ("trtllm_mla", "0.5.8", {"10.0|10.3"}),
        ("cutlass_mla", "0.5.20", set()),
    ],
)
def test_attention_of_sglang_by_version(key: str, version: str, expected: set[str]) -> None:
    matches = MATRIX.claims("sglang", "attention-backend", Version(version), key)
    allowed = [m.claim for m in matches if m.claim.value == "supported"]
    assert {claim.when["capability"] for claim in allowed} == expected


@pytest.mark.parametrize(
    ("domain", "architecture", "first"),
    [
        ("vllm", "Qwen3ForCausalLM", "0.8.4"),
        ("vllm", "Glm4MoeLiteForCausalLM", "0.15.0"),
        ("sglang", "GptOssForCausalLM", "0.5.0rc0"),
        ("transformers", "qwen3", "4.51.0"),
        ("transformers", "glm4_moe_lite", "5.0.0"),
        ("llama-cpp-python", "gemma2", "0.2.80"),
        ("llama.cpp", "kimi-k3", "b10230"),
    ],
)
def test_first_release_that_knows_a_model(domain: str, architecture: str, first: str) -> None:
    matches = list(MATRIX.claims(domain, "model", None, architecture))
    assert [m.claim.since for m in matches] == [first]


def test_triton_carries_a_ptxas_that_bounds_its_cards() -> None:
    assert release("triton", "3.2.0").extra["ptxas"] == "12.4"
    assert release("triton", "3.6.0").extra["ptxas_blackwell"] == "12.9"


@pytest.mark.parametrize(
    ("name", "pci", "generation"),
    [
        ("910B3", "", "A2"),
        ("Ascend310P3", "", "310P"),
        ("Ascend910_9391", "", "A3"),
        ("910B", "19e5:d801", "910"),
        ("910B", "19e5:d802", "A2"),
        ("Atlas 300I Duo", "", "310P"),
        ("", "19e5:d803", "A3"),
    ],
)
def test_npus_by_name_and_bus(name: str, pci: str, generation: str) -> None:
    npu = MATRIX.npu(name, pci_id=pci)
    assert npu is not None
    assert npu.generation == generation


def test_a_chip_name_of_two_generations_is_none() -> None:
    assert MATRIX.npu("Ascend910B") is None
    assert MATRIX.npu("Ascend NPU") is None


@pytest.mark.parametrize(
    ("name", "version", "glibc"),
    [
        ("CentOS", "7.9.2009", "2.17"),
        ("Red Hat Enterprise Linux", "8.6", "2.28"),
        ("ubuntu", "18.04", "2.27"),
        ("Debian", "12", "2.36"),
        ("Kylin Linux Advanced Server", "V10", "2.28"),
        ("jetpack", "6.2", "2.35"),
    ],
)
def test_glibc_of_distributions(name: str, version: str, glibc: str) -> None:
    row = MATRIX.distro(name, version)
    assert row is not None
    assert row.glibc == glibc


def test_alpine_has_no_glibc() -> None:
    row = MATRIX.distro("alpine", "3.22.1")
    assert row is not None
    assert (row.libc, row.glibc) == ("musl", None)


def test_xid_numbers_are_few_and_unique() -> None:
    row = MATRIX.xid(79)
    assert row is not None
    assert (row.severity, row.scope) == ("error", "hardware")
    assert MATRIX.xid(9999) is None


@pytest.mark.parametrize(
    ("reference", "engine", "cuda"),
    [
        (("vllm/vllm-openai", "v0.32.0-cu129"), "vllm", "12.9"),
        (("vllm/vllm-openai", "v0.33.0"), "vllm", "13.0"),
        (("lmsysorg/sglang", "v0.5.4-cu130"), "sglang", "13.0"),
        (("nvcr.io/nvidia/tritonserver", "25.10-trtllm-python-py3"), "tensorrt-llm", "12.9"),
        (("ghcr.io/ggml-org/llama.cpp", "server-cuda13"), "llama.cpp", "13.1"),
    ],
)
def test_images_by_tag(reference: tuple[str, str], engine: str, cuda: str) -> None:
    repository, tag = reference
    fitting = [
        row for row in MATRIX.images if row.repository == repository and re.fullmatch(row.tag, tag)
    ]
    assert fitting
    assert fitting[0].engine == engine
    assert (fitting[0].cuda or "").startswith(cuda)
