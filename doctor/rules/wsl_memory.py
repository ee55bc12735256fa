"""What an engine needs of memory that WSL does not offer, or that the engine leaves off there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from doctor.findings import Evidence, Remedy
from doctor.matrix import Matrix
from doctor.matrix.model import Claim
from doctor.rules.engine import Case, Fault, NotApplicable, Rule, Severity, rule
from doctor.rules.framework import computes_on_cpu
from doctor.rules.host_room import arguments, processes
from doctor.rules.model_facts import environment
from doctor.rules.settings import possible, settings
from doctor.rules.software import engine


@rule("HST199", cause="wsl-specific", severity=Severity.WARNING)
def engine_part_off_in_wsl(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """A part of the engine that runs by default cannot run in WSL as it is.

    What: in WSL, parts of the releases that the engine may be of which the matrix records
        that they do not start there, unless the variable or argument that helps is set; parts
        that an argument turns on count only where it is given.
    Why: pinned memory, which the GPU reads in place, costs more under WSL and is limited
        there; engines leave it off, and parts that are built on it stop at start.
    How to fix: turn the part off, or pinned memory on, as the finding says.
    Silent when: not WSL, or what helps is set. For what runs by default a note where no
        variable at all is stated, for those who run the engine in WSL have mostly set them, or
        where only some of the releases that it may be are concerned.
    Sources: issue threads of the engine (rows in the matrix).
    """
    if case.facts.host.platform.known("host.platform") != "wsl2":
        raise NotApplicable("not WSL")
    found = engine(case, matrix)
    env, given = environment(case), arguments(case)
    rows = possible(matrix, found, "wsl", settings(case, matrix)[0])
    # What was asked for says more than what runs by default.
    rows.sort(key=lambda row: not row[0].claim.data.get("asked"))
    for match, is_sure in rows:
        claim = match.claim
        if _is_helped(claim, env, given):
            continue
        wanted = next((name for name in claim.data.get("asked", ()) if is_on(given, name)), "")
        if claim.data.get("asked") and not wanted:
            continue
        until = f" to before {claim.until}" if claim.until else " and newer"
        which = "" if is_sure else f" of {claim.since}{until}"
        yield Fault(
            f"{claim.key} of {found.label}{which} does not start in WSL: {claim.text}",
            evidence=(
                found.evidence,
                Evidence("WSL 2", case.facts.host.platform.at),
                *((Evidence(f"{wanted} is asked for", "engine_args"),) if wanted else ()),
            ),
            remedies=(Remedy(claim.remedy),),
            sources=claim.source,
            extrapolated=match.extrapolated,
            severity=None if wanted or (is_sure and env) else Severity.INFO,
        )
        return


def _is_helped(claim: Claim, env: dict[str, str], given: dict[str, Any]) -> bool:
    switches = claim.data.get("unless_env", {})
    is_set = any(env.get(name) == str(value) for name, value in switches.items())
    return is_set or any(is_on(given, name) for name in claim.data.get("unless_arg", ()))


def is_on(given: object, name: str, depth: int = 4) -> bool:
    """Tell whether an argument of this name is given and says neither no nor nothing.

    It may stand inside another, as in a configuration of DeepSpeed.
    """
    if not isinstance(given, dict) or not depth:
        return False
    value = str(given.get(name, "")).strip().lower().removesuffix(".0")
    if value not in _OFF:
        return True
    return any(is_on(inner, name, depth - 1) for inner in given.values())


_OFF = ("", "0", "false", "no", "off", "none", "null")


@rule("HST242", cause="wsl-specific", severity=Severity.WARNING)
def several_gpus_in_wsl(case: Case, matrix: Matrix) -> Iterator[Fault]:
    """An engine spreads one model over several GPUs in WSL, where they have no peer access.

    What: in WSL, the number of processes that the arguments ask for, against the variables by
        which NCCL is kept from peer access.
    Why: WSL passes each GPU in by itself: one cannot read the memory of another, and NCCL in
        the processes hangs or stops at the first exchange, while one GPU works.
    How to fix: turn peer access off in NCCL; if it hangs still, use one GPU, or Linux itself.
    Silent when: not WSL, one process, another vendor's cards, or peer access is turned off.
    Sources: NVIDIA CUDA on WSL user guide, constraints; vLLM issues 5161 and 8087.
    """
    if case.facts.host.platform.known("host.platform") != "wsl2":
        raise NotApplicable("not WSL")
    if case.facts.devices.is_known and not case.nvidia_devices:
        raise NotApplicable("no nvidia device")
    count = processes(case)
    if count is None or count < _SEVERAL or computes_on_cpu(case):
        raise NotApplicable("nothing tells of several processes")
    env = environment(case)
    if any(env.get(name, "").upper() in values for name, values in _NO_PEERS.items()):
        return
    yield Fault(
        f"{count} processes share one model in WSL, where GPUs have no access to each other",
        evidence=(
            Evidence(f"{count} processes", "engine_args"),
            Evidence("WSL 2", case.facts.host.platform.at),
        ),
        remedies=(
            Remedy("keep NCCL from peer access", ("export NCCL_P2P_DISABLE=1",)),
            Remedy("see at which exchange it stops", ("export NCCL_DEBUG=INFO",)),
            Remedy("or use one GPU there, or the same host without WSL"),
        ),
        sources=(
            "https://docs.nvidia.com/cuda/wsl-user-guide/",
            "https://github.com/vllm-project/vllm/issues/5161",
        ),
    )


_SEVERAL = 2
_NO_PEERS = {"NCCL_P2P_DISABLE": ("1",), "NCCL_P2P_LEVEL": ("LOC", "0")}


RULES: tuple[Rule, ...] = (engine_part_off_in_wsl, several_gpus_in_wsl)
