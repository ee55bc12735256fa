"""What a remedy puts in leaves the rest of the environment able to load."""

from __future__ import annotations

import pytest

from doctor.diagnose import Request, cases, diagnose
from doctor.facts import Expected, Version
from doctor.intake.field_report import read_field_report
from doctor.matrix.model import Release
from doctor.rules.engine import run_rule
from tests.rules.test_rules import BY_CODE, MATRIX

VLLM = MATRIX.engine("vllm")
assert VLLM is not None
NEWER = [r for r in VLLM.releases if r.cuda and Version(r.cuda).at_least(Version("13.0"))]


@pytest.mark.parametrize("release", NEWER, ids=lambda r: r.version)
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_torch_is_never_exchanged_under_an_engine_compiled_against_it(
    release: Release, arch: str
) -> None:
    packages = {"vllm": release.version, "torch": f"{release.pins['torch'].lstrip('=')}+cu130"}
    report = read_field_report(
        {
            "engine": "vllm",
            "driver": "550.163.01",
            "os": {"arch": arch},
            "gpus": [{"name": "NVIDIA H100 80GB HBM3"}],
            "packages": packages,
        }
    )
    (case,) = cases(report, MATRIX, Request(), Expected())
    (finding,) = run_rule(BY_CODE["DRV101"], case, MATRIX).findings
    commands = [c for r in finding.remedies for c in r.commands if "pip install" in c]
    has_older = any((v.cuda or "").startswith("12.") for v in release.variants)
    assert bool(commands) is has_older
    for command in commands:
        assert f"vllm-{release.version}+cu129-" in command
        assert f"_{arch}.whl" in command
        assert command.endswith("--extra-index-url https://download.pytorch.org/whl/cu129")


def test_the_remedy_of_the_row_comes_before_an_older_release() -> None:
    """A switch that is the cause is taken back; no other release is installed for it."""
    report = {"engine": "vllm", "packages": {"vllm": "0.7.2"}, "gpus": [{"name": "V100"}],
              "env": {"VLLM_USE_V1": "1"}}  # fmt: skip
    (target,) = diagnose(read_field_report(report), MATRIX).targets
    assert target.primary is not None
    assert target.primary.code == "ENG101"
    assert "VLLM_USE_V1" in target.primary.remedies[0].action
