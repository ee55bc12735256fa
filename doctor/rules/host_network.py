"""What must come over the network: models, packages, images."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.facts import Missing, MissingFact
from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.rules.engine import Case, Fault, Rule, Severity, rule
from doctor.rules.model_facts import environment


@rule("HST231", cause="network-unreachable", severity=Severity.ERROR)
def network_unreachable(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A hub, index or registry that is needed was tried and not reached.

    What: addresses that were tried and did not answer, where the engine must fetch its
        model or packages; a host told to be offline, where a model is named as on the hub.
    Why: without a route, a proxy or name resolution, downloads hang or fail; behind a
        proxy that opens TLS, the certificate is refused.
    How to fix: set the proxy for the process that downloads, use a mirror, or fetch the
        files elsewhere and point the engine to them.
    Silent when: nothing was tried, and the container has a network. A warning for a proxy on
        the loopback address, which in a container is its own, and for a host told offline.
    Sources: Hugging Face Hub documentation, environment variables.
    """
    cut_off = _cut_off(case) or _told(case)
    if cut_off is not None:
        yield cut_off
        return
    reading = case.facts.host.unreachable
    failed = reading.known("host.unreachable")
    if failed and reading.at in _TOLD:
        raise MissingFact("host.unreachable", Missing.NOT_STATED)
    if failed:
        yield Fault(
            message=f"not reachable from here: {', '.join(failed)}",
            evidence=(Evidence(f"tried: {', '.join(failed)}", reading.at),),
            remedies=(
                Remedy("set the proxy where the engine is started", ("export HTTPS_PROXY=...",)),
                Remedy("or use a mirror of the hub", ("export HF_ENDPOINT=...",)),
                Remedy("or fetch the files elsewhere", ("export HF_HUB_OFFLINE=1",)),
            ),
        )


def _cut_off(case: Case) -> Fault | None:
    """A container without a network, or with a proxy that only the host has, needs its model."""
    model = str((case.workload.args.value or {}).get("model", "")) if case.workload else ""
    runtime = case.scope.runtime.value or ""
    if case.scope.kind != "container" or not _REPOSITORY.fullmatch(model):
        return None
    if _NO_NETWORK.search(runtime):
        fact, severity = Evidence("--network none", case.scope.runtime.at), None
    else:
        env = environment(case)
        proxies = [env.get(name, "") for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")]
        local = next((text for text in proxies if _LOOPBACK.search(text)), "")
        if not local or _HOST_NETWORK.search(runtime):
            return None
        fact, severity = Evidence(f"proxy {local}", case.scope.env.at), Severity.WARNING
    return Fault(
        message=f"the container cannot fetch {model}: it does not reach the network of the host",
        evidence=(fact,),
        remedies=(
            Remedy("give it a network and a proxy that it reaches", ("docker run --network host",)),
            Remedy("or fetch the model before, and mount its folder"),
        ),
        severity=severity,
    )


def _told(case: Case) -> Fault | None:
    """Somebody tells of a host without a way out, and something is to come from there."""
    reading = case.facts.host.unreachable
    wanted = _wanted(case)
    if reading.at not in _TOLD or not reading.value or not wanted:
        return None
    env = environment(case)
    if reading.value == (HUB,) and any(env.get(name) for name in _MIRRORS):
        return None
    return Fault(
        message=f"{reading.value[0]} is not reachable from here, and {wanted}",
        evidence=(Evidence(f"not reachable: {reading.value[0]}", reading.at),),
        remedies=(
            Remedy("name the folder of a copy that holds everything, code of the model too"),
            Remedy("or use a mirror of the hub that the host reaches", ("export HF_ENDPOINT=...",)),
            Remedy("images: load them from an archive or from a registry inside"),
        ),
        severity=Severity.WARNING,
    )


def _wanted(case: Case) -> str:
    """What must come over the network, or ""."""
    work = case.workload
    if work is None:
        return ""
    if work.engine in _PULLS_IMAGES:
        return "its images come from a registry"
    model = str((work.args.value or {}).get("model", ""))
    is_library = work.engine == "ollama" and model and not model.startswith(("/", "."))
    is_named = is_library or _REPOSITORY.fullmatch(model)
    return f"{model} is named as the hub names it" if is_named else ""


HUB = "huggingface.co"
_TOLD = ("notes", "container")
_PULLS_IMAGES = ("gpu-operator",)
# Variables by which engines and the hub's library take another source.
_MIRRORS = (
    "HF_ENDPOINT",
    "VLLM_USE_MODELSCOPE",
    "SGLANG_USE_MODELSCOPE",
    "LMDEPLOY_USE_MODELSCOPE",
    "MODELSCOPE_CACHE",
    "LMDEPLOY_USE_OPENMIND_HUB",
    "HF_MIRROR",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
)
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}")
_NO_NETWORK = re.compile(r"--net(?:work)?[= ]none\b")
_HOST_NETWORK = re.compile(r"--net(?:work)?[= ]host\b|network_mode: host")
_LOOPBACK = re.compile(r"//(?:[^/@]{1,80}@)?(?:127\.0\.0\.1|localhost)\b")


RULES: tuple[Rule, ...] = (network_unreachable,)
