"""The known-answer model that ships with doctor: its files, its sentence, its reference.

Made by `scripts/make_known_answer.py`. Every file is checked against its sha256 before use.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from doctor.errors import DoctorError

DATA = Path(__file__).parent / "data"
NAME = "known-answer"
HF_FOLDER = "known-answer-hf"
GGUF_FORMS = ("f16", "q8_0", "q4_0")

# Largest difference of a log-probability that a right engine shows. Measured: llama.cpp
# 0.008 in f16, 0.019 with int8 activations (Q8_0, Q4_0); vLLM 0.016 in bf16. Taking any part
# of the model away (rope, MLP, order of rows) moves one by 0.2 or more.
TOLERANCE = 0.05
# By the number format of the KV cache, and of weights that the engine quantizes itself. A
# simulation gives a third to a half of these; llama.cpp with a q4_0 cache 0.17.
TOLERANCES = {
    "fp8": 0.1,
    "fp8_e4m3": 0.1,
    "fp8_e4m3fn": 0.1,
    "fp8_e5m2": 0.3,
    "q5_0": 0.2,
    "q5_1": 0.2,
    "q4_0": 0.4,
    "q4_1": 0.4,
    "iq4_nl": 0.4,
}
QUANTIZED = 0.3


@dataclass(frozen=True)
class KnownCase:
    """One prompt: its text, its token ids, the log-probability of each token of the answer.

    `other_beginnings` are those for a prompt with another number of beginning-of-text
    tokens than one, as engines add them that take no ids.
    """

    text: str
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    other_beginnings: dict[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownAnswer:
    """The sentence, the ids of its tokens with the end of text, the cases by name.

    `context` is the longest prompt and answer together; `files` are sha256 by name.
    """

    sentence: str
    tokens: tuple[int, ...]
    context: int
    cases: dict[str, KnownCase]
    files: dict[str, str]


def known_answer(folder: Path = DATA) -> KnownAnswer:
    """Read the reference. Raises DoctorError if it is damaged."""
    path = folder / f"{NAME}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=KnownAnswer)
    except (OSError, msgspec.MsgspecError) as fault:
        raise _damaged(path, str(fault)) from None


def gguf_file(form: str = "f16", folder: Path = DATA) -> Path:
    """The model as GGUF in one of GGUF_FORMS. Raises DoctorError if it is damaged."""
    name = f"{NAME}-{form}.gguf"
    _check(folder, (name,))
    return folder / name


def hf_folder(folder: Path = DATA) -> Path:
    """The model as a Hugging Face folder in bf16. Raises DoctorError if it is damaged."""
    names = [name for name in known_answer(folder).files if name.startswith(f"{HF_FOLDER}/")]
    _check(folder, tuple(names))
    return folder / HF_FOLDER


def tolerance_for(kv_cache_dtype: str = "", quantization: str = "") -> float:
    """The largest difference to accept, by what the engine was told about number formats."""
    own = QUANTIZED if quantization else TOLERANCE
    return max(own, TOLERANCES.get(kv_cache_dtype, TOLERANCE))


def _check(folder: Path, names: tuple[str, ...]) -> None:
    expected = known_answer(folder).files
    for name in names:
        path = folder / name
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as fault:
            raise _damaged(path, fault.strerror or str(fault)) from None
        if found != expected.get(name):
            raise _damaged(path, "its sha256 is not the recorded one")


def _damaged(path: Path, why: str) -> DoctorError:
    return DoctorError(f"{path.name} of the known-answer model: {why}", "reinstall llm-doctor")
