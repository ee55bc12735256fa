"""llama-cpp-python that pip built for the CPU, by what people tell of their GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import missed
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import accelerators, wants_cpu
from doctor.rules.model_facts import argument, environment
from doctor.rules.software import engine_name

_NAME = "llama-cpp-python"
_IDLE = re.compile(
    r"\b(?:gpu|cuda|vram)\b[^.;\n]{0,30}\b(?:not (?:being )?used|not in use|idle|unused|ignored|"
    r"0 ?%|never used)\b|\bnot (?:use|using) the gpu\b|\b(?:runs|only) on (?:the )?cpu\b|"
    r"\bonly (?:the )?cpu\b|\b(?:card|gpu) is(?: never|n.t| not)(?: being)? used\b|"
    r"\ball (?:the )?layers (?:are |stay |go )?(?:on|to) (?:the )?cpu\b|\bblas ?= ?0\b",
    re.IGNORECASE,
)
_BY_PIP = re.compile(r"\bpip3? install\b[^\n]{0,80}\bllama[-_]cpp[-_]python\b", re.IGNORECASE)
_BARE = re.compile(
    r"(?:[$>] ?)?(?:installed (?:with|by) )?pip3? install (?:-U |--upgrade )?"
    r"llama[-_]cpp[-_]python(?:\[server\])?(?:==\S{1,20})?",
    re.IGNORECASE,
)
_GPU_BUILD = re.compile(r"GGML_|LLAMA_CU|CMAKE_ARGS|--only-binary|--prefer-binary|\.whl", re.I)
_README = "https://github.com/abetlen/llama-cpp-python#supported-backends"


@rule("FRM108", cause="cpu-only-build", severity=Severity.WARNING)
def pip_built_llama_for_cpu(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Layers are to go to the GPU, it stays idle, and llama-cpp-python came by a plain pip.

    What: the command that installed it, the layers asked for, and that the GPU is told not to
        be used; of a host with a card that is enough.
    Why: the package index has sources alone, which are compiled for the CPU unless CMAKE_ARGS
        ask for more. An extra index with CUDA wheels is passed over while the sources are newer.
    How to fix: CMAKE_ARGS with the CUDA back end, or the index of wheels with --only-binary.
    Silent when: a GPU build is asked for, no layers are, or nobody tells of an idle GPU or of a
        card beside the bare command.
    Sources: README of llama-cpp-python, supported back ends.
    """
    if engine_name(case, matrix) != _NAME or case.scope.variants.get(_NAME):
        raise NotApplicable("another engine, or its build is known")
    layers = argument(case, "n_gpu_layers")[0]
    if str(layers) == "0" or (layers is None and not case.nvidia_devices) or wants_cpu(case):
        raise NotApplicable("no layers are to be offloaded")
    notes = case.facts.notes
    command = next((note for note in notes if _BY_PIP.search(note)), "")
    idle = next(filter(None, map(_IDLE.search, notes)), None)
    # The bare command as all that is told of the install says as much, on a host with a card.
    may_have_card = bool(case.nvidia_devices) or (layers is not None and _no_card_told(case))
    is_bare = may_have_card and _BARE.fullmatch(command.strip()) is not None
    asks_more = any(map(_GPU_BUILD.search, (*notes, *environment(case))))
    is_idle = idle is not None and (command or case.nvidia_devices)
    if (is_idle or (command and is_bare)) and not asks_more:
        yield Fault(
            "pip compiles llama-cpp-python for the CPU unless it is asked for more",
            evidence=(
                *((Evidence(command[:200], "notes"),) if command else ()),
                *((Evidence(idle[0], "notes"),) if idle is not None else ()),
            ),
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


def _no_card_told(case: Case) -> bool:
    """Nobody speaks of devices, and the system is told: no Mac, where a plain build has Metal."""
    system = case.facts.host.os.value
    is_other = system is not None and system.id != "macos"
    return is_other and not case.devices and not case.facts.devices.is_absent


@rule("FRM109", cause="cpu-only-build", severity=Severity.WARNING)
def part_for_gpu_missing(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The distribution splits off the engine's GPU back end, and that package is not there.

    What: packages that hold the back ends of an engine, against what was looked for and not
        found, on a host with a GPU.
    Why: the engine alone runs on the CPU, without a word.
    How to fix: install the package for the card beside it.
    Silent when: nobody missed such a package, another one is there, no GPU is stated, or a CPU
        run was asked for.
    Sources: package lists of Arch Linux (ollama, ollama-cuda, ollama-rocm).
    """
    lost = missed(case, _BACK_ENDS)
    if not lost:
        raise NotApplicable("no package with a back end was missed")
    here = any(_BACK_ENDS.fullmatch(p.name) for p in case.scope.packages.value or ())
    if accelerators(case) and not here:
        yield Fault(
            f"{lost[0]} is not installed, and without it {engine_name(case, matrix)} has no back "
            "end for the GPU",
            evidence=(Evidence(f"{lost[0]} is absent", "absent"),),
            remedies=(Remedy(f"install {lost[0]}"),),
            sources=("https://archlinux.org/packages/?q=ollama",),
        )


_BACK_ENDS = re.compile(
    r"(?:ollama|llama\.cpp|llama-cpp|whisper\.cpp|koboldcpp)[-_](?:cuda|rocm|hip|vulkan)|"
    r"(?:lib)?ggml[-_](?:cuda|hip|vulkan)\S*",
    re.IGNORECASE,
)

RULES: tuple[Rule, ...] = (pip_built_llama_for_cpu, part_for_gpu_missing)
