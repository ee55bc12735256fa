"""llama-cpp-python that pip built for the CPU, by what people tell of their GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import wants_cpu
from doctor.rules.model_facts import argument
from doctor.rules.software import engine_name

_NAME = "llama-cpp-python"
_IDLE = re.compile(
    r"\b(?:gpu|cuda|vram)\b[^.;\n]{0,30}\b(?:not (?:being )?used|not in use|idle|unused|ignored|"
    r"0 ?%|never used)\b|\bnot (?:use|using) the gpu\b|\b(?:runs|only) on (?:the )?cpu\b|"
    r"\bonly (?:the )?cpu\b",
    re.IGNORECASE,
)
_BY_PIP = re.compile(r"\bpip3? install\b[^\n]{0,80}\bllama[-_]cpp[-_]python\b", re.IGNORECASE)
_GPU_BUILD = re.compile(r"GGML_|LLAMA_CU|CMAKE_ARGS|--only-binary|--prefer-binary|\.whl", re.I)
_README = "https://github.com/abetlen/llama-cpp-python#supported-backends"


@rule("FRM108", cause="cpu-only-build", severity=Severity.WARNING)
def pip_built_llama_for_cpu(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Layers are to go to the GPU, it stays idle, and llama-cpp-python came by a plain pip.

    What: the command that installed it, the layers asked for, and that the GPU is told not to
        be used.
    Why: the package index has sources alone, which are compiled for the CPU unless CMAKE_ARGS
        ask for more. An extra index with CUDA wheels is passed over while the sources are newer.
    How to fix: CMAKE_ARGS with the CUDA back end, or the index of wheels with --only-binary.
    Silent when: no command is told or it asks for a GPU build, no layers are asked for, or nobody
        tells of an idle GPU.
    Sources: README of llama-cpp-python, supported back ends.
    """
    if engine_name(case, matrix) != _NAME or case.scope.variants.get(_NAME):
        raise NotApplicable("another engine, or its build is known")
    if str(argument(case, "n_gpu_layers")[0] or "0") == "0" or wants_cpu(case):
        raise NotApplicable("no layers are to be offloaded")
    notes = case.facts.notes
    command = next((note for note in notes if _BY_PIP.search(note)), "")
    idle = next(filter(None, map(_IDLE.search, notes)), None)
    if command and idle is not None and not any(map(_GPU_BUILD.search, notes)):
        yield Fault(
            "pip compiles llama-cpp-python for the CPU unless it is asked for more",
            evidence=(Evidence(command[:200], "notes"), Evidence(idle[0], "notes")),
            remedies=(
                Remedy(
                    "take a wheel with CUDA, and no newer sources",
                    (
                        "pip install --force-reinstall --only-binary llama-cpp-python "
                        "llama-cpp-python --extra-index-url "
                        "https://abetlen.github.io/llama-cpp-python/whl/cu124",
                    ),
                    role="python_env",
                ),
            ),
            sources=(_README,),
        )


RULES: tuple[Rule, ...] = (pip_built_llama_for_cpu,)
