"""Models that one back end of an engine, or its reader of GGUF files, does not know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from doctor.facts import Missing, MissingFact, Version
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim
from doctor.matrix.ranges import covers
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.engine_models import listed_classes, squeezed
from doctor.rules.model_facts import architecture_names, argument, model_name
from doctor.rules.settings import applicable, fold, settings
from doctor.rules.software import (
    Software,
    admits,
    engine,
    index_command,
    installed,
    shared_pin,
    software,
)

# Back ends whose registries were read apart, and the kind of claims that hold them.
_REGISTRIES = {"turbomind": "model-turbomind", "pytorch": "model-pytorch"}
_READER = "transformers"
_GGUF = "model-gguf"


@rule("ENG402", cause="model-not-supported-by-version", severity=Severity.WARNING)
def model_unknown_to_backend(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The back end that was asked for has no code for the model, which another one may have.

    What: the architecture of the model against the registry of that back end alone, in every
        version that the engine may be, and models that it refuses by their shape.
    Why: an engine of two back ends has a registry for each; it goes on with the other one,
        which is slower and may not have the quantization, or stops.
    How to fix: the back end that has the model, or the first release whose back end does.
    Silent when: no back end is asked for, no registry of it was read, or the architecture is not
        known; where the version is not, unless most releases that serve the model lack it there.
    Sources: registries of the back ends of every release (rows in the matrix).
    """
    found, backend = engine(case, matrix), fold(str(argument(case, "backend")[0] or ""))
    kind = _REGISTRIES.get(backend, "")
    if not any(matrix.claims(found.name, kind)):
        raise NotApplicable("no back end with a registry of its own is asked for")
    at = Evidence(f"backend={backend}", argument(case, "backend")[1])
    remedy = Remedy(f"leave out backend {backend}: another one may have the model")
    for match in applicable(matrix, found, kind, settings(case, matrix)[0]):
        if match.claim.value == "unsupported":
            told = f"{backend} of {found.label}: {match.claim.text}"
            yield Fault(told, (found.evidence, at), (remedy,), match.claim.source)
            return
    if found.beyond:
        raise found.unknown()
    names = listed_classes(matrix, found, architecture_names(case, matrix))
    if not names:
        raise MissingFact("model architecture", Missing.NOT_STATED)
    claims = [match.claim for match in matrix.claims(found.name, kind)]
    if _mostly_lacks(matrix, found, claims, names):
        first: str | None = " in most of the releases that serve it; the version is not known"
    else:
        first = _first_after(claims, names, found)
    if first is not None:
        told = f"{backend} of {found.label} does not know {names[0]}{first}"
        yield Fault(told, (found.evidence, at), (remedy,), claims[-1].source)


def _mostly_lacks(matrix: Matrix, found: Software, claims: list[Claim], names: list[str]) -> bool:
    """Of an unknown version: most releases that serve the model have it in another back end."""
    if found.version is not None:
        return False
    everywhere = [match.claim for match in matrix.claims(found.name, "model")]
    serving = [v for v in found.versions if _is_listed(everywhere, names, v)]
    having = [v for v in serving if _is_listed(claims, names, v)]
    return bool(having) and 2 * len(having) < len(serving)


def _is_listed(claims: Iterable[Claim], names: list[str], version: Version) -> bool:
    wanted = {squeezed(name) for name in names}
    mine = (c for c in claims if squeezed(c.key) in wanted and c.value != "unsupported")
    return any(covers(claim, version) is not False for claim in mine)


@rule("ENG403", cause="model-not-supported-by-version", severity=Severity.WARNING)
def gguf_unknown_to_reader(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The model's GGUF file is of an architecture that the reader beside the engine does not know.

    What: the architecture in the file, as llama.cpp calls it, against those that Transformers
        reads in the version that is installed, else in all versions that the engine admits.
    Why: engines other than llama.cpp and Ollama have the configuration read out of the file by
        Transformers, which knows few of llama.cpp's architectures and stops at any other.
    How to fix: the model's original checkpoint, another of its quantizations, or llama.cpp.
    Silent when: the file is no GGUF, its architecture is not known, or the configuration is told
        to come from elsewhere.
    Sources: vllm-project/vllm issues 28691 and 30485; GGUF_CONFIG_MAPPING of every release of
        Transformers (rows in the matrix).
    """
    found = engine(case, matrix)
    if not _is_read_by_transformers(case, found) or argument(case, "hf_config_path")[0]:
        raise NotApplicable("no GGUF file that Transformers reads")
    known = {squeezed(m.claim.key): m.claim.key for m in matrix.claims("llama.cpp", "model")}
    known |= {squeezed(m.claim.key): m.claim.value for m in matrix.claims("llama.cpp", "gguf-name")}
    asked = (squeezed(name) for name in architecture_names(case, matrix))
    words = [known[word] for word in dict.fromkeys(asked) if word in known]
    if not words:
        raise MissingFact("architecture of the GGUF file", Missing.NOT_STATED)
    reader = _reader(case, matrix, found)
    claims = [match.claim for match in matrix.claims(_READER, _GGUF)]
    first = _first_after(claims, words, reader)
    if first is not None:
        yield Fault(
            f"{reader.label} reads no GGUF files of {words[0]}{first}",
            evidence=(reader.evidence, Evidence(f"architecture {words[0]} of a GGUF file")),
            remedies=(Remedy("use the original checkpoint or another quantization, or llama.cpp"),),
            sources=claims[-1].source,
        )


@rule("ENG404", cause="model-not-supported-by-version", severity=Severity.ERROR)
def variant_unknown_to_release(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The release lists the model's architecture, and not yet what this model changes of it.

    What: models whose configuration has something that came later than their architecture (a
        kind of rope scaling, heads of another width), against the release of the engine and of
        the transformers beside it.
    Why: the name of the class is known, so the loader goes on, and stops at the configuration
        or at the shape of a weight.
    How to fix: the first release that knows it, or newer.
    Silent when: the version is not known, or nothing is recorded of the model.
    Sources: wheels of the releases before and after (rows in the matrix).
    """
    beside = installed(case, matrix, _READER)
    subjects = (engine(case, matrix), *([beside] if beside else []))
    setting = settings(case, matrix)[0]
    pairs = ((f, m) for f in subjects for m in applicable(matrix, f, "model-variant", setting))
    for found, match in pairs:
        claim = match.claim
        commands = index_command(matrix, found.name, f">={claim.until}")
        newer = Remedy(f"{claim.until} or newer", commands)
        yield Fault(
            f"{found.label} and {model_name(case)}: {claim.text}",
            evidence=(found.evidence, Evidence(f"model {model_name(case)}")),
            remedies=(Remedy(claim.remedy) if claim.remedy else newer,),
            sources=claim.source,
        )
        return


@rule("ENG405", cause="model-not-supported-by-version", severity=Severity.ERROR)
def file_format_given_up(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """The model's file is of a format that the release no longer reads.

    What: what the name of the file tells of its format (GGML before GGUF) against the release.
    Why: GGUF took its place in August 2023 without a reader for the old files: "invalid magic".
    How to fix: the GGUF file of the same model, or the converter that came with it.
    Silent when: the name tells no such format, or the release is older or not known.
    Sources: ggml-org/llama.cpp pull request 2398; llama-cpp-python's change log.
    """
    if not _OLD_FILE.search(model_name(case)):
        raise NotApplicable("the file is of no format that was given up")
    found = engine(case, matrix)
    for match in applicable(matrix, found, "model-file", settings(case, matrix)[0], "ggml"):
        yield Fault(
            f"{found.label} and {model_name(case)}: {match.claim.text}",
            evidence=(found.evidence, Evidence(f"model {model_name(case)}")),
            remedies=(Remedy(match.claim.remedy),),
            sources=match.claim.source,
        )


_OLD_FILE = re.compile(
    r"\bggml(?:v[1-3])?\b(?![-_./]org)[^/\s]*(?:\.bin)?$|\.ggmlv[1-3]\b", re.IGNORECASE
)


def _is_read_by_transformers(case: Case, found: Software) -> bool:
    asked = (argument(case, name)[0] for name in ("quantization", "load_format", "quantize"))
    is_gguf = any(fold(str(word or "")) == "gguf" for word in asked)
    is_file = model_name(case).lower().endswith((".gguf", "-gguf"))
    return (is_gguf or is_file) and found.name in ("vllm", "sglang", _READER)


def _reader(case: Case, matrix: Matrix, found: Software) -> Software:
    """The transformers that is installed, else every release of it that the engine admits."""
    here = installed(case, matrix, _READER) or software(matrix, _READER, None)
    pin = shared_pin(found, _READER)
    if here.version is not None or not pin:
        return here
    fitting = tuple(row for row in here.rows if admits(pin, Version(row.version)) is not False)
    return Software(_READER, None, fitting or here.rows)


def _first_after(claims: Iterable[Claim], names: list[str], found: Software) -> str | None:
    """What to say of a name that no version lists; None if all do; raises if only some do."""
    if found.beyond:
        raise found.unknown()
    wanted = {squeezed(name) for name in names}
    mine = [c for c in claims if squeezed(c.key) in wanted and c.value != "unsupported"]
    answers = [_is_listed(mine, names, version) for version in found.versions]
    if not any(answers) and (answers or not mine):
        later = next((c.since for c in mine if c.since), "")
        return f"; {later} is the first that does" if later and found.version else ""
    if not all(answers):
        raise MissingFact(f"version of {found.name}", Missing.NOT_STATED)
    return None


RULES: tuple[Rule, ...] = (
    model_unknown_to_backend,
    gguf_unknown_to_reader,
    variant_unknown_to_release,
    file_format_given_up,
)
