"""An engine that was asked about and is not there, as a plain install would bring it."""

from __future__ import annotations

from dataclasses import replace

from doctor.diagnose import Request
from doctor.facts import Facts, Package, Scope, Version
from doctor.intake.wanted import Wanted
from doctor.matrix import Matrix
from doctor.matrix.model import Release
from doctor.planned import on_host
from doctor.stack.setting import with_arch
from doctor.stack.torch_choice import choices


def supposed(facts: Facts, request: Request, matrix: Matrix) -> tuple[Facts, Request, str] | None:
    """The facts with that release and the torch it pins, the request about them, and a note.

    None if the engine is here, or runs, or if what is installed where it would be was read;
    if no release is named; and for engines that are no Python distributions.
    """
    domain = matrix.engine(request.engine)
    if domain is None or request.version is None or request.scopes or facts.workloads:
        return None
    package = next(iter(domain.packages), "")
    if not package or any(_holds(scope, domain.packages) for scope in facts.scopes):
        return None
    release = matrix.release(request.engine, request.version)
    if release is None:
        return None
    host, about_arch = with_arch(facts, matrix)
    name = f"{request.engine}=={request.version}"
    torch = _torch(matrix, release, host)
    beside = f" with torch {torch.version}, which its pin takes" if torch is not None else ""
    listed = (Package(package, request.version), *((torch,) if torch is not None else ()))
    host = on_host(Wanted(packages=listed).scope(name), host, matrix)
    note = f"{name} was not seen here: judged as a plain install{beside}. {about_arch}".strip()
    placed = replace(host, scopes=(*facts.scopes, *host.scopes))
    return placed, replace(request, scopes=(name,)), note


def _torch(matrix: Matrix, release: Release, host: Facts) -> Package | None:
    """The torch that an installer takes beside a release, None if it pins none."""
    pin = release.pins.get("torch", "")
    arch = host.host.arch.value or ""
    first = next(iter(choices(matrix, pin, Version.maybe(release.cuda), "", arch)), None)
    return None if first is None else Package("torch", first.version)


def _holds(scope: Scope, packages: tuple[str, ...]) -> bool:
    """Tell whether a scope has the engine, or was read as far as to say what it has."""
    return scope.package(*packages) is not None or scope.packages.is_known or scope.torch.is_known
