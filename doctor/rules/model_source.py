"""Rules about the source of a model: its files, the right to fetch it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.decide import missed
from doctor.rules.engine import Case, Fault, NotApplicable, Severity, rule
from doctor.rules.model_facts import environment, model_name
from doctor.rules.serving_told import is_told, told

_MODEL_FILE = re.compile(
    r".*\.(?:safetensors|gguf|bin|pth?)(?:\.index\.json)?|(?:.*/)?(?:config|generation_config|params|"
    r"tokenizer\w*|special_tokens_map|vocab)\.(?:json|model|txt)|merges\.txt",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"HF_TOKEN|HUGGING_?FACE(?:_HUB)?_(?:API_)?TOKEN|(?:hf|hugging ?face)(?: access)? token", re.I
)

# Variables that the hub's library reads, and names that other programs use for the same.
_READ = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH")
_LIKE_TOKEN = re.compile(
    r"(?:HF|HUGGING_?FACE)_?(?:HUB)?_?(?:API|AUTH|ACCESS)?_?(?:TOKEN|KEY)", re.IGNORECASE
)
_LFS = re.compile(r"git-lfs|git lfs", re.IGNORECASE)


@rule("MDL501", cause="model-incomplete", severity=Severity.ERROR)
def model_files_incomplete(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """Files of the model are missing, are Git LFS pointers, or cannot be read.

    What: the shards that the index names against the files that are there, their first
        bytes and sizes, as they were read with the model's configuration.
    Why: an interrupted download leaves shards out; a clone without Git LFS leaves text
        files of a hundred bytes in place of weights.
    How to fix: download again; the hub client goes on where it stopped.
    Silent when: the files were not looked at.
    Sources: safetensors format; Git LFS pointer specification.
    """
    if case.workload is None:
        raise NotApplicable("no workload")
    looked_for = missed(case, _MODEL_FILE)
    if looked_for:
        yield _without_files(case, looked_for)
        return
    has_no_lfs = bool(missed(case, _LFS)) and model_name(case).startswith(("/", "."))
    if has_no_lfs or is_told(case, "lfs_pointers", "fetch_interrupted"):
        yield _without_lfs(case) if has_no_lfs else _told_incomplete(case)
        return
    config = case.workload.model.known("model files")
    kinds = {
        "missing_files": "are missing",
        "lfs_pointers": "are Git LFS pointers",
        "unreadable_files": "cannot be read",
    }
    if not any(key in config for key in kinds):
        raise MissingFact("model files", Missing.NOT_STATED)
    for key, what in kinds.items():
        names = [str(name) for name in config.get(key) or ()]
        if names:
            yield Fault(
                f"{len(names)} files of {model_name(case) or 'the model'} {what}: "
                f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}",
                evidence=(Evidence(f"{key}: {len(names)}", case.workload.model.at),),
                remedies=(
                    Remedy(
                        "download the model again",
                        (f"hf download {shlex.quote(model_name(case) or 'REPOSITORY')}",),
                        role="model",
                    ),
                ),
            )


def _without_lfs(case: Case) -> Fault:
    return Fault(
        f"git-lfs is not installed: a clone of {model_name(case)} holds pointers",
        evidence=(Evidence("git-lfs was not found", "absent"),),
        remedies=(Remedy("install it, fetch again", ("git lfs install && git lfs pull",)),),
        severity=Severity.WARNING,
    )


def _told_incomplete(case: Case) -> Fault:
    what = "are Git LFS pointers" if is_told(case, "lfs_pointers") else "were not fetched whole"
    return Fault(
        f"files of {model_name(case) or 'the model'} {what}, as is told",
        evidence=(told(case, "lfs_pointers", "fetch_interrupted"),),
        remedies=(Remedy("fetch the model again, whole (with git lfs pull in a clone)"),),
        severity=Severity.WARNING,
    )


def _without_files(case: Case, names: tuple[str, ...]) -> Fault:
    return Fault(
        f"{', '.join(names[:3])} of {model_name(case) or 'the model'} {_is(names)} missing",
        evidence=(Evidence(f"{names[0]} was not found", "absent"),),
        remedies=(Remedy("download the model again, whole"),),
    )


def _is(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"


@rule("MDL502", cause="model-access", severity=Severity.ERROR)
def model_not_reachable(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The model must be fetched, and the workload may not or cannot fetch it.

    What: whether the model is on disk, whether it is gated, whether a token is in the
        environment, and whether the hub is switched off.
    Why: a gated repository answers 401 or 403 without a token; with HF_HUB_OFFLINE
        nothing is fetched at all.
    How to fix: accept the terms on the model's page and export HF_TOKEN; or fetch the model
        beforehand and name the folder.
    Silent when: the model is a folder, or it is not known whether it is gated or there.
    Sources: Hugging Face Hub documentation on gated models and environment variables.
    """
    if case.workload is None or not model_name(case):
        raise NotApplicable("no model is named")
    tokens = missed(case, _TOKEN)
    if tokens:
        yield _no_access(case, f"{tokens[0]} is not set")
        return
    if model_name(case).startswith(("/", "./", "~")):
        raise NotApplicable("the model is a folder")
    config = case.workload.model.value or {}
    why = _told(case, matrix)
    if why:
        yield replace(_no_access(case, why), severity=Severity.WARNING)
        return
    other = _other_variable(case, matrix)
    if other:
        why = f"{other} is set, which the hub's library does not read, and no HF_TOKEN"
        yield replace(_no_access(case, why), severity=Severity.WARNING)
        return
    if "cached" not in config and "gated" not in config:
        raise MissingFact("whether the model is on disk or gated", Missing.NOT_STATED)
    env = environment(case)
    cached = bool(config.get("cached"))
    token = any(env.get(name) for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"))
    offline = env.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    if not cached and offline:
        yield _no_access(case, "HF_HUB_OFFLINE is set and the model is not on disk")
    elif not cached and config.get("gated") and case.scope.env.is_known and not token:
        yield _no_access(case, "the model is gated and no HF_TOKEN is set")


def _is_gated(case: Case, matrix: Matrix) -> bool:
    owners = [m.claim.key.lower() for m in matrix.claims("transformers", "gated-models")]
    return any(model_name(case).lower().startswith(owner) for owner in owners)


def _other_variable(case: Case, matrix: Matrix) -> str:
    """A variable that looks like the hub's token and is not, for a model that needs one; ""."""
    env = environment(case)
    if not _is_gated(case, matrix) or any(env.get(name) for name in _READ):
        return ""
    return next((name for name in env if _LIKE_TOKEN.fullmatch(name) and env[name]), "")


def _told(case: Case, matrix: Matrix) -> str:
    """What a person tells of access to it: of a login only where its owner asks for one."""
    names = ("no_access", *(("not_logged_in",) if _is_gated(case, matrix) else ()))
    return told(case, *names).fact if is_told(case, *names) else ""


def _no_access(case: Case, why: str) -> Fault:
    return Fault(
        f"{model_name(case)} cannot be loaded: {why}",
        evidence=(Evidence(why, case.scope.env.at),),
        remedies=(
            Remedy(
                "fetch it beforehand",
                (f"hf download {shlex.quote(model_name(case))}",),
                role="model",
            ),
        ),
    )


RULES = (
    model_files_incomplete,
    model_not_reachable,
)
