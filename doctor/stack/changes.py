"""What of a host, or of an ask, could be changed: each change with the facts it leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from doctor.diagnose import HOST_SCOPE
from doctor.facts import (
    UNSTATED,
    ContainerEngine,
    FabricManager,
    Facts,
    Libc,
    NvidiaFacts,
    PythonInfo,
    Specifier,
    Version,
    seen,
)
from doctor.findings import Rung
from doctor.matrix import Matrix
from doctor.matrix.model import DriverBranch, Release
from doctor.rules.cards import branch_span, shared
from doctor.rules.driver_choice import branch_commands, lasting_branches
from doctor.stack.model import Ask, Judged, Resolution
from doctor.stack.setting import setting_of

AT = "after the change"
_COMMON_GOALS = ("throughput", "local")
_DRIVER_CAUSES = (
    "ptx-too-new",
    "container-requirement-unsatisfied",
    "forward-compat-unsupported-hw",
)

Versions = frozenset[tuple[object, ...]]


@dataclass(frozen=True)
class Change:
    """One change: what a person would do, and the host or ask that results.

    `versions` are those which it may help, as sort keys; None if that is not known.
    """

    kind: str
    text: str
    facts: Facts
    ask: Ask
    versions: Versions | None = None
    commands: tuple[str, ...] = ()
    reboot: bool = False

    def helps(self, version: Version | None) -> bool:
        """Tell whether the change may help that version."""
        return self.versions is None or version is None or version.low in self.versions


def all_changes(found: Resolution, matrix: Matrix) -> Iterator[Change]:
    """Changes worth trying, user space first, the driver last."""
    yield from _pin(found)
    yield from _artifact(found)
    yield from _python(found, matrix)
    yield from _container(found)
    yield from _checkpoint(found, matrix)
    yield from _system(found, matrix)
    yield from _driver(found, matrix)
    yield from _npu_driver(found, matrix)
    yield from _other_engine(found, matrix)


def together(one: Change, other: Change) -> Change:
    """Both changes at once."""
    facts = replace(
        other.facts,
        host=one.facts.host,
        scopes=one.facts.scopes,
        container_engine=one.facts.container_engine,
    )
    return Change(
        f"{one.kind} and {other.kind}",
        f"{one.text}, and {other.text}",
        facts,
        one.ask,
        None,
        (*one.commands, *other.commands),
        one.reboot or other.reboot,
    )


def _blocked_by(found: Resolution, is_of: Callable[[Judged], bool]) -> Versions:
    """Versions of which a candidate was refused for nothing else."""
    versions = (j.candidate.version for j in found.refused if is_of(j))
    return frozenset(version.low for version in versions if version is not None)


def _pin(found: Resolution) -> Iterator[Change]:
    ask = found.ask
    if ask.spec is not None and ask.spec.clauses and not found.offers:
        free = replace(ask, spec=None)
        yield Change("pin", f"give up {ask.engine}{ask.spec}", found.facts, free)


def _artifact(found: Resolution) -> Iterator[Change]:
    if found.ask.artifact:
        free = replace(found.ask, artifact="")
        other = "a wheel in a virtual environment" if found.ask.artifact == "image" else "an image"
        yield Change("artifact", f"{other} instead of {_a(found.ask.artifact)}", found.facts, free)


def _a(artifact: str) -> str:
    return f"an {artifact}" if artifact == "image" else f"a {artifact}"


def _python(found: Resolution, matrix: Matrix) -> Iterator[Change]:
    """Another interpreter, made by uv: the nearest ones first."""
    have = setting_of(found.facts).python
    blocked = _blocked_by(found, lambda j: _causes(j) <= {"python-unsupported"})
    if have is None or not blocked or len(have.release) < 2:
        return
    wanted = {p for r, v in matrix.versions(found.engine) if v.low in blocked for p in _pythons(r)}
    ordered = sorted(wanted - {have.release[1]}, key=lambda n: (abs(n - have.release[1]), -n))
    for minor in ordered[:4]:
        python = seen(PythonInfo(Version(f"3.{minor}")), AT)
        scopes = tuple(replace(s, python=python) for s in found.facts.scopes)
        host = replace(HOST_SCOPE, python=python)
        yield Change(
            "python",
            f"Python 3.{minor} in an environment of its own",
            replace(found.facts, scopes=scopes or (host,)),
            found.ask,
            blocked,
            (f"uv venv --python 3.{minor} .venv",),
        )


def _pythons(release: Release) -> set[int]:
    spec = Specifier.parse(release.requires_python)
    listed = {int(t[3:]) for t in release.pythons if t.startswith("cp3") and t[3:].isdecimal()}
    minors = listed or set(range(9, 15))
    return {n for n in minors if spec is None or spec.admits(Version(f"3.{n}")) is True}


def _causes(judged: Judged) -> set[str]:
    return {finding.cause for finding in judged.findings}


def _container(found: Resolution) -> Iterator[Change]:
    if not found.facts.container_engine.is_absent:
        return
    box = ContainerEngine("docker", runtimes=seen(("nvidia", "runc"), AT))
    toolkit = " with NVIDIA's container toolkit" if found.facts.nvidia.driver.is_known else ""
    facts = replace(found.facts, container_engine=seen(box, AT))
    image = replace(found.ask, artifact="image")
    if found.ask.artifact in ("", "image"):
        yield Change("container", f"a container engine{toolkit}", facts, image)


def _checkpoint(found: Resolution, matrix: Matrix) -> Iterator[Change]:
    """Another format of the weights, where the one that was asked for is what stands against it."""
    args = dict(found.ask.args)
    asked = args.get("quantization")
    if asked is None or found.offers:
        return
    for method in ("gptq", "awq", "compressed-tensors", "fp8", "gguf"):
        if method != asked and any(matrix.claims(found.engine, "quantization", None, method)):
            other = tuple({**args, "quantization": method}.items())
            text = f"a checkpoint in {method} instead of {asked}"
            yield Change("checkpoint", text, found.facts, replace(found.ask, args=other))


def _system(found: Resolution, matrix: Matrix) -> Iterator[Change]:
    """A newer release of the same distribution, where the C library is what stands against it."""
    blocked = _blocked_by(found, lambda j: _causes(j) <= {"glibc-too-old", "libstdcxx-too-old"})
    system = found.facts.host.os.value
    if system is None or not blocked:
        return
    rows = [row for row in matrix.distro_releases(system.id) if row.glibc]
    have = Version.maybe(system.version)
    for row in sorted(rows, key=lambda r: Version(r.glibc or "0").low):
        version = Version.maybe(row.versions[0].removesuffix(".*"))
        if version is None or have is None or version.newer_than(have) is not True:
            continue
        host = replace(
            found.facts.host,
            os=seen(replace(system, version=str(version)), AT),
            libc=seen(Libc("glibc", Version(row.glibc or "")), AT),
            libstdcxx=UNSTATED,
        )
        text = f"{system.id} {version}, which has glibc {row.glibc}"
        yield Change("system", text, replace(found.facts, host=host), found.ask, blocked)


def _driver(found: Resolution, matrix: Matrix) -> Iterator[Change]:
    """Driver branches that drive every card and offer more, lowest first."""
    devices = [d for d in found.facts.devices.value or () if d.vendor == "nvidia"]
    if not devices or found.facts.host.platform.value in ("jetson", "wsl2"):
        return
    stands = found.host or any(_is_driver(j) for j in found.refused) or found.offers
    have = found.facts.nvidia.driver.value
    for row in lasting_branches(matrix) if stands else ():
        spans = [branch_span(device, matrix) for device in devices]
        is_newer = have is None or (have.major or 0) < row.branch
        if is_newer and all(span.drives(row.branch) for span in spans):
            yield _to_branch(found, matrix, row)


def _is_driver(judged: Judged) -> bool:
    return all(f.rung is Rung.DRIVER or f.cause in _DRIVER_CAUSES for f in judged.findings)


def _to_branch(found: Resolution, matrix: Matrix, row: DriverBranch) -> Change:
    facts = found.facts
    devices = [d for d in facts.devices.value or () if d.vendor == "nvidia"]
    is_open = all(shared(d, matrix, "open_modules") != "no" for d in devices)
    must_open = any(shared(d, matrix, "open_modules") == "required" for d in devices)
    version = Version.maybe(row.newest) or Version(f"{row.branch}.*")
    notes = " with the open kernel modules" if must_open else ""
    has_manager = facts.nvidia.fabric_manager.version.is_known
    notes += f", fabric manager {row.branch} with it" if has_manager else ""
    return Change(
        "driver",
        f"driver branch {row.branch}{notes}",
        with_driver(facts, version, matrix),
        found.ask,
        None,
        branch_commands(facts.host.os.value, row.branch, is_open),
        reboot=True,
    )


def with_driver(facts: Facts, version: Version, matrix: Matrix) -> Facts:
    """The same host with another NVIDIA driver, in the flavour that its cards need."""
    devices = [d for d in facts.devices.value or () if d.vendor == "nvidia"]
    must_open = any(shared(d, matrix, "open_modules") == "required" for d in devices)
    manager = facts.nvidia.fabric_manager
    flavour = "open" if must_open else (facts.nvidia.module_flavour.value or "")
    nvidia = NvidiaFacts(
        driver=seen(version, AT),
        module_flavour=seen(flavour, AT) if flavour else UNSTATED,
        fabric_manager=FabricManager(seen(version, AT)) if manager.version.is_known else manager,
        container_toolkit=facts.nvidia.container_toolkit,
    )
    return replace(facts, nvidia=nvidia)


def _npu_driver(found: Resolution, matrix: Matrix) -> Iterator[Change]:
    """The lowest HDK driver of each toolkit that is newer than the present one."""
    have = found.facts.ascend.driver.value
    if have is None or not any(_causes(j) <= {"npu-driver-firmware"} for j in found.refused):
        return
    floors = {row.extra["hdk_min"] for row, _ in matrix.versions("cann") if "hdk_min" in row.extra}
    for text in sorted(floors, key=lambda t: Version(t).low):
        floor = Version(text)
        if have.older_than(floor) is True:
            ascend = replace(found.facts.ascend, driver=seen(floor, AT))
            yield Change(
                "npu-driver",
                f"HDK driver and firmware {text} or newer",
                replace(found.facts, ascend=ascend),
                found.ask,
                reboot=True,
            )


def _other_engine(found: Resolution, matrix: Matrix) -> Iterator[Change]:
    """Engines for the same devices, where the one that was asked for has nothing."""
    if found.offers or found.host or found.ask.artifact or "quantization" in dict(found.ask.args):
        return
    vendor = setting_of(found.facts).vendor
    rows = (r for r in matrix.stacks.goals if r.vendor == vendor and r.goal in _COMMON_GOALS)
    for name in dict.fromkeys(row.engine for row in rows if row.engine != found.engine):
        ask = replace(found.ask, engine=name, spec=None)
        yield Change("engine", f"{name} instead of {found.engine}", found.facts, ask)
