"""The engine that a person means: by its name with a version or other words, or by an image."""

from __future__ import annotations

import re

from doctor.facts import Version
from doctor.facts.engines import ENGINE_ORDER
from doctor.intake.names import engine_name

# "vLLM 0.20.0", "vllm==0.20.0", "vllm (v0.20.0)", "vllm: 0.20.0", "vllm@0.20.0".
_NAMED = re.compile(
    r"(.{1,60}?)(?:\s{0,3}(?:==|[:@=(])\s{0,3}v?|\s{1,3}v?)(\d\S{0,60}?|b\d{3,9})\s{0,3}\)?"
)
# Words beside a name that tell no other engine: how it is started or built.
_BESIDE = re.compile(
    r"[\s_-]+(?:main|master|nightly|latest|dev|serve|server|service|openai|engine|docker|"
    r"container|image|backend|runtime|offline|online|api)\b|\s*\([^()]{0,80}\)",
    re.I,
)
# Programs that start an engine which they do not bring themselves.
_FRONT_ENDS = re.compile(
    r"^(?:xinference|fastchat|gpustack|kserve|llama-?factory|ms-?swift|swift|open-?webui|dify|"
    r"ragflow|litellm|ray(?:-serve| serve)?|verl|openrlhf|trl|skypilot|aibrix|helm|kubernetes)\b"
    r"[\s:/,+-]*",
    re.I,
)


def named_front_end(text: str) -> str:
    """The program around an engine that a person means, or "" if it is none.

    It is what was asked to work where nothing names the engine: a trainer, a model server.
    """
    match = _FRONT_ENDS.match(text.strip())
    return match[0].lower().strip(" :/,+-") if match else ""


def named_engine(text: str) -> tuple[str, Version | None]:
    """The engine's own name, and the version where the text has one; ("", None) for a front end.

    A name that is not known stays what it was.
    """
    whole = text.strip()
    match = _NAMED.fullmatch(whole)
    version = Version.maybe(match[2]) if match else None
    name = match[1].strip() if match and version else whole
    if engine_name(name) in ENGINE_ORDER:
        return engine_name(name), version
    bare = _FRONT_ENDS.sub("", _BESIDE.sub("", name)).strip()
    if bare != name and (not bare or engine_name(bare) in ENGINE_ORDER):
        return engine_name(bare) if bare else "", version
    return engine_name(name), version
