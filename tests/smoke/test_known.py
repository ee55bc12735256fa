"""The shipped model: the script makes the same files, damage is noticed, the answer stands."""

from __future__ import annotations

import hashlib
import random
import shutil
import struct
from pathlib import Path

import pytest

from doctor.errors import DoctorError
from doctor.smoke import known
from tests.smoke.making import script

model = pytest.importorskip("numpy") and script("known_answer_model")
make = script("make_known_answer")


def test_files_are_small_and_whole() -> None:
    for form in known.GGUF_FORMS:
        assert known.gguf_file(form).stat().st_size <= 2_000_000
    folder = known.hf_folder()
    assert all(path.stat().st_size <= 2_000_000 for path in folder.iterdir())


def test_reference_speaks_of_the_sentence() -> None:
    answer = known.known_answer()
    assert len(answer.tokens) == len(answer.sentence.split()) + 1
    for case in answer.cases.values():
        assert len(case.logprobs) == len(answer.tokens)
        assert len(case.ids) + len(answer.tokens) < answer.context
        # A value near 0 would move for no fault.
        assert max(case.logprobs) < -0.3


def test_damage_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(known.DATA, folder)
    path = folder / "known-answer-f16.gguf"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DoctorError, match="sha256"):
        known.gguf_file("f16", folder)
    (folder / "known-answer-hf" / "config.json").unlink()
    with pytest.raises(DoctorError, match=r"config\.json"):
        known.hf_folder(folder)
    (folder / "known-answer.json").write_text("{}")
    with pytest.raises(DoctorError, match=r"known-answer\.json"):
        known.known_answer(folder)


@pytest.mark.slow
def test_the_script_makes_the_shipped_files(tmp_path: Path) -> None:
    tensors = model.build()
    made = make.files(tensors)
    made["known-answer.json"] = make._json(make.description(tensors, made))
    assert {name: _sha(data) for name, data in made.items()} == {
        str(path.relative_to(known.DATA)): _sha(path.read_bytes())
        for path in known.DATA.rglob("*")
        if path.is_file()
    }


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_all_formats_hold_the_same_numbers() -> None:
    tensor = model.build()["model.layers.1.mlp.up_proj"]
    values = tensor.values
    numpy = pytest.importorskip("numpy")
    f16 = numpy.frombuffer(make._f16(tensor), "<f2").reshape(values.shape)
    assert (f16 == values).all()
    wide = numpy.frombuffer(make._bf16(values), "<u2").astype("<u4") << 16
    assert (wide.view("<f4").reshape(values.shape) == values).all()
    raw = numpy.frombuffer(make._q4_0(tensor), numpy.uint8).reshape(-1, 18)
    scales = raw[:, :2].copy().view("<f2").astype(float)
    codes = numpy.hstack([raw[:, 2:] & 15, raw[:, 2:] >> 4]).astype(float) - 8
    assert ((codes * scales).reshape(values.shape) == values).all()


@pytest.mark.slow
def test_any_prompt_gets_the_sentence() -> None:
    tensors = model.build()
    draw = random.Random(11)  # noqa: S311 - not for secrets
    plain = [i for i in range(model.VOCAB) if not model.CHAIN <= i < model.CHAIN + 26]
    for length in (1, 2, 9, 40, 200, 400):
        for _ in range(4):
            ids = [draw.randrange(model.VOCAB) for _ in range(length - 1)] + [draw.choice(plain)]
            model.reference(tensors, ids)


# What a broken part of an engine does to the log-probabilities: far beyond the tolerance.
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["no-mlp", "shuffled"])
def test_a_fault_moves_the_numbers(fault: str) -> None:
    case = known.known_answer().cases["short"]
    found = model.reference(model.build(fault), list(case.ids))
    assert max(abs(a - b) for a, b in zip(found, case.logprobs, strict=True)) > 4 * known.TOLERANCE


def test_gguf_begins_as_it_should() -> None:
    head = known.gguf_file("q8_0").read_bytes()[:24]
    magic, version, tensors, _pairs = struct.unpack("<4sIQQ", head)
    assert (magic, version, tensors) == (b"GGUF", 3, 3 + 9 * model.LAYERS)
