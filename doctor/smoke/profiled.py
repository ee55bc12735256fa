"""What a profile asks to be proven: its engine with its arguments, and the known answer.

What belongs to the profile's own model (its length, its quantization) is left out when the
known-answer model takes its place; what chooses kernels (number formats, back ends,
parallelism) stays.
"""

from __future__ import annotations

from typing import Any

from doctor.errors import UsageError
from doctor.facts import Version
from doctor.profile.schema import Profile
from doctor.smoke.ask import Ask
from doctor.smoke.secret import read_secret
from doctor.smoke.values import value_of

_OF_ITS_MODEL = frozenset(
    {
        "max_model_len",
        "max_input_tokens",
        "max_num_batched_tokens",
        "max_num_seqs",
        "gpu_memory_utilization",
        "quantization",
        "tokenizer",
        "chat_template",
        "generation_config",
        "served_model_name",
    }
)


def ask_of(profile: Profile) -> Ask:
    """The smoke test of a profile on this machine. Raises UsageError if it cannot be one."""
    if profile.install.method == "container":
        raise UsageError(
            f"profile {profile.name} runs in a container, which smoke does not start",
            "start it and give its URL",
        )
    spec = profile.engine.version.strip()
    exact = Version.maybe(spec.removeprefix("==")) if spec.startswith("==") else None
    known = profile.smoke.known_answer
    args: dict[str, Any] = {name: value_of(text) for name, text in profile.serving.args.items()}
    if known:
        args = {name: value for name, value in args.items() if name not in _OF_ITS_MODEL}
    elif profile.serving.name:
        args["served_model_name"] = profile.serving.name
    return Ask(
        engine=profile.engine.name,
        version=exact if exact and exact.is_exact else None,
        versions=spec,
        model="" if known or profile.model.source == "embedded" else profile.model.id,
        args=args,
        env=dict(profile.serving.env),
        key=read_secret(profile.serving.api_key),
        timeout_s=float(profile.smoke.timeout_s),
    )
