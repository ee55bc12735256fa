"""Rules about environment variables that an engine or its build tools read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import partial

from doctor.findings import Evidence, Remedy
from doctor.matrix import ClaimMatch, Matrix
from doctor.matrix.model import Claim
from doctor.rules.decide import each
from doctor.rules.engine import Case, Fault, Severity, rule
from doctor.rules.model_facts import environment
from doctor.rules.settings import possible, settings
from doctor.rules.software import Software, engine, installed, software

# Variables that name one folder or file: nvcc, CMake, torch and the engines append to them.
_SINGLE_PATHS = (
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDACXX",
    "CUDNN_PATH",
    "TRITON_PTXAS_PATH",
    "HF_HOME",
    "ROCM_PATH",
    "HIP_PATH",
    "ASCEND_HOME_PATH",
    "ASCEND_TOOLKIT_HOME",
    "ATB_HOME_PATH",
)


_PROGRAMS = ("CUDACXX", "TRITON_PTXAS_PATH")
# What int() and float() of Python read, and nothing at all, which start scripts write for "unset".
_READ_AS = {
    "integer": (r"\s*(?:[-+]?\d+(?:_\d+)*)?\s*", "it is read as an integer"),
    "number": (
        r"\s*(?:[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf)?\s*",
        "it is read as a number",
    ),
}
# Libraries that engines load whatever they are, by how the names of their variables begin.
_LIBRARIES = {"NCCL_": "nvidia-nccl"}
# Variables of CUDA, torch, OpenMP and ROCm whose values have one form. Sources: CUDA C++
# Programming Guide, environment variables; torch.utils.cpp_extension; torch CUDA semantics;
# OpenMP specification; ROCm documentation of HSA_OVERRIDE_GFX_VERSION.
_TARGET = r"(?:\d{1,2}\.\d[af]?|[A-Z][a-z]{1,20})(?:\+(?:PTX|Tesla|Tegra))?"
_FORMS = {
    "CUDA_VISIBLE_DEVICES": (
        re.compile(r"(?:(?:-?\d+|(?:GPU|MIG)-[\w/<>-]+|NoDevFiles|none|void)(?:,|$)\s*)*", re.I),
        "indices or UUIDs with commas between them",
    ),
    "PYTORCH_CUDA_ALLOC_CONF": (
        re.compile(r"\s*\w+:(?:\[[^\]]*\]|[\w.]+)(?:\s*,\s*\w+:(?:\[[^\]]*\]|[\w.]+))*,?\s*"),
        "pairs of the form option:value",
    ),
    "OMP_NUM_THREADS": (re.compile(r"\s*[1-9]\d*(?:\s*,\s*[1-9]\d*)*\s*"), "a positive number"),
    "TORCH_CUDA_ARCH_LIST": (
        re.compile(rf"(?:{_TARGET}(?:[; ,]+{_TARGET})*[; ,]*)?"),
        'capabilities such as "8.6;9.0+PTX"',
    ),
    "HSA_OVERRIDE_GFX_VERSION": (re.compile(r"\d+\.\d+\.\d+"), "three numbers such as 10.3.0"),
}


# A whole value in quotes (env files of Docker and lists of Compose keep them), and quotes of a word
# processor around an assignment, which systemd and shells take for letters.
_CURLY = r"[\u201c\u201d\u201e\u2018\u2019]"
_QUOTED = re.compile(rf"\"[^\"]*\"|'[^']*'|{_CURLY}.*|.*{_CURLY}")
_TYPOGRAPHIC = re.compile(
    rf"\b(?:Environment|export [A-Z]\w{{2,40}}|[A-Z][A-Z0-9]{{1,20}}_[A-Z_]{{2,40}})={_CURLY}"
)
_LONGEST = 300
_ON_QUOTES = (
    "https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#Environment=",
    "https://docs.docker.com/compose/how-tos/environment-variables/set-environment-variables/",
    "https://github.com/ollama/ollama/issues/7892",
)


@rule("ENG501", cause="env-var-malformed", severity=Severity.ERROR)
def path_variable_malformed(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A variable that must name one folder, or have one form, holds something else.

    What: CUDA_HOME and its like, which name one folder, and variables whose values have one
        form (indices, pairs, numbers), in the environment of the engine or of its scope.
    Why: build tools append /bin/nvcc to the text as it is; `export CUDA_HOME=$CUDA_HOME:/x`
        leaves a leading colon and no such file exists.
    How to fix: export the one folder.
    Silent when: the variable is not set or names one absolute path.
    Sources: vllm-project/vllm issue 36077; nvcc and torch.utils.cpp_extension.
    """
    yield from each((partial(_in_quotes, case), partial(_misshapen, case)))


def _misshapen(case: Case) -> Iterator[Fault]:
    for name, value in environment(case, needed=True).items():
        form = _FORMS.get(name)
        # Nothing at all is as good as unset, and blanks around it are read over.
        if form is not None and value.strip() and form[0].fullmatch(value.strip()) is None:
            yield Fault(
                f"{name} is {value!r}; it takes {form[1]}",
                evidence=(Evidence(f"{name}={value}", case.scope.env.at),),
                remedies=(Remedy(f"set it to {form[1]}, or unset it", (f"unset {name}",)),),
                severity=Severity.WARNING if name == "OMP_NUM_THREADS" else None,
            )
        if name in _SINGLE_PATHS and value and _is_malformed(value, name in _PROGRAMS):
            clean = next((part for part in value.strip("'\" ").split(":") if part), "")
            yield Fault(
                f"{name} is {value!r}; it must name one folder",
                evidence=(Evidence(f"{name}={value}", case.scope.env.at),),
                remedies=(Remedy("set the one folder", (f"export {name}={shlex.quote(clean)}",)),),
            )


def _in_quotes(case: Case) -> Iterator[Fault]:
    """Quotes that are part of a value, and typographic ones, which no shell and no unit reads."""
    for name, value in environment(case).items():
        text = value.strip()
        if _QUOTED.fullmatch(text) and name not in _SINGLE_PATHS:
            yield _quotes(f"{name} is {value}", Evidence(f"{name}={value}", case.scope.env.at))
    for note in case.facts.notes:
        found = _TYPOGRAPHIC.search(note[:_LONGEST])
        if found is not None:
            yield _quotes(f"{found[0]} ... is written", Evidence(note.strip()[:_LONGEST], "notes"))


def _quotes(told: str, fact: Evidence) -> Fault:
    return Fault(
        f"{told} with quotes that are taken for a part of it",
        evidence=(fact,),
        remedies=(Remedy("write it without quotes, or with straight ones around the assignment"),),
        sources=_ON_QUOTES,
        severity=Severity.WARNING,
    )


def _is_malformed(value: str, is_file: bool) -> bool:
    is_windows_drive = re.match(r"[A-Za-z]:[\\/]", value) is not None
    is_program = not is_file and re.search(r"/bin(?:/nvcc)?/?$", value) is not None
    return not is_windows_drive and (
        is_program or ":" in value or ";" in value or value != value.strip() or value[0] in "'\""
    )


@rule("ENG502", cause="env-var-malformed", severity=Severity.ERROR)
def engine_variable_refused(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An environment variable of the engine has a value that the engine does not take.

    What: variables in the environment against the values or the pattern that the release
        accepts; variables that must not be set in service.
    Why: some values stop the engine, others are ignored without a word.
    How to fix: a value that the finding names, or unset it.
    Silent when: the matrix does not know the variable. A variable that the release no
        longer reads is a warning.
    Sources: environment modules of the engines (rows in the matrix).
    """
    env = environment(case, needed=True)
    setting = settings(case, matrix)[0]
    for found in _readers(case, matrix, env):
        known = dict.fromkeys(match.claim.key for match in matrix.claims(found.name, "env-var"))
        for name in filter(env.__contains__, known):
            for match, for_all in possible(matrix, found, "env-var", setting, name):
                # In whatever release a variable is read as a number, it is read as nothing else.
                if for_all or (found.version is None and match.claim.value in _READ_AS):
                    yield from _variable_faults(case, found, match, env[name])


def _readers(case: Case, matrix: Matrix, env: dict[str, str]) -> Iterator[Software]:
    """The engine, its torch, and the libraries of which a variable is set."""
    yield engine(case, matrix)
    torch = installed(case, matrix, "torch")
    if torch is not None:
        yield torch
    for prefix, name in _LIBRARIES.items():
        if any(variable.startswith(prefix) for variable in env):
            yield installed(case, matrix, name) or software(matrix, name, None, "")


def _variable_faults(case: Case, found: Software, match: ClaimMatch, value: str) -> Iterator[Fault]:
    claim = match.claim
    problem, severity = _problem(claim, value)
    if problem:
        yield Fault(
            f"{claim.key}={value!r}: {problem} ({found.label})",
            evidence=(Evidence(f"{claim.key}={value}", case.scope.env.at),),
            remedies=(Remedy(claim.remedy or f"unset {claim.key}", (f"unset {claim.key}",)),),
            sources=claim.source,
            severity=severity,
            extrapolated=match.extrapolated,
        )


def _problem(claim: Claim, value: str) -> tuple[str, Severity | None]:
    if claim.value == "removed":
        return "this release does not read it", Severity.WARNING
    allowed = [str(item) for item in claim.data.get("allowed", ())]
    is_listed = value.lower() in [item.lower() for item in allowed]
    if claim.data.get("must_be") == "unset" or claim.value == "dangerous":
        if is_listed or value.lower() in ("0", "false", ""):
            return "", None
        return claim.text or "it must not be set in service", Severity.WARNING
    pattern, label = _READ_AS.get(claim.value, (str(claim.data.get("pattern", "")), ""))
    # What the engine reads past, with a default in its place, does not stop it.
    is_passed_over = claim.data.get("otherwise") == "default"
    severity = Severity.WARNING if is_passed_over else None
    ending = ", and the default is taken" if is_passed_over else ""
    if allowed and not is_listed:
        return f"allowed are {', '.join(allowed)}{ending}", severity
    if pattern and re.fullmatch(pattern, value) is None:
        return (
            label or claim.text or "the value does not have the form that is read"
        ) + ending, severity
    return "", None


RULES = (path_variable_malformed, engine_variable_refused)
