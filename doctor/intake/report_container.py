"""The container engine that a field report speaks of, in its own fields or in its notes."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, ContainerEngine, Reading, seen
from doctor.intake.names import os_release
from doctor.intake.report_packages import SortedPackages
from doctor.intake.stated import Stated
from doctor.probes.stated_version import version
from doctor.probes.tool_text import reading

_DOCKER = re.compile(r"\bdocker(?: engine)? v?(\d{1,3}\.\d{1,3}\.\d{1,3})\b", re.I)
_DOCKER_INFO = re.compile(r"\bdocker info\b[:\s]*([^;]{1,80})", re.I)
_NO_CGROUPS = re.compile(r"\bno-cgroups\s{0,3}[=:]\s{0,3}(true|false)\b", re.I)
_DAEMON_JSON = re.compile(r"\bdaemon\.json\b[^;]{0,40}\bnvidia\b", re.I)
_RUNTIME = re.compile(r"(?<!no )(?<!without )\b(nvidia|runc|crun|youki)\b", re.I)
# Engines that cannot hand over a GPU: without the runtime or CDI, or confined to a snap.
_NO_RUNTIME = re.compile(
    r"\b(?:without|no|missing|lacks?)\s(?:the\s|any\s|an?\s)?(?:cdi\b|(?:nvidia\s)?runtimeclass|"
    r"nvidia[- ](?:container[- ])?(?:runtime|toolkit)|nvidia-docker|runtime nvidia)|\bsnap\b|"
    r"\bnvidia(?:[- ]container)?[- ](?:runtime(?:class)?|toolkit) (?:is |was |has )?(?:not|never) "
    r"(?:been )?(?:installed|configured|registered|listed|set up|known|there|(?:the )?default)\b|"
    r"\bnvidia[- ](?:container[- ])?(?:runtime|toolkit) (?:is |was |has been )?"
    r"(?:left out|skipped|omitted|missing)\b|"
    r"\bnvidia-ctk\b[\w= -]{0,40} (?:was |is |has )?(?:not|never) (?:been )?(?:run|called)\b|"
    r"\b(?:docker|containerd|daemon|kubelet|engine) (?:was |is |has )?(?:not|never) (?:been )?"
    r"restarted\b|\b(?:not|without|no|lacks?|never)\b(?: set| name| have| an?)* runtimeClassName\b|"
    r"\bdevice[- ]plug-?in (?:is |was )?(?:not|never) (?:installed|deployed|running|there)\b|"
    r"\b(?:no|without|missing|lacks?)\s(?:the\s|an?\s)?(?:nvidia\s)?device[- ]plug-?in\b",
    re.I,
)
# A daemon whose file names no runtime, or was lost; and lists of runtimes without NVIDIA's.
_NO_FILE = re.compile(
    r"\bdaemon\.json\b[^;\n]{0,25}\b(?:without|lacks?|has no|names no|no) (?:the |an? )?"
    r"(?:nvidia\b|runtimes?\b)|\bdaemon\.json\b[^;\n]{0,15}\b(?:is |was |got )?(?:lost|missing|"
    r"empty|gone|deleted|overwritten|reset|not there|does not exist)\b|"
    r"\b(?:no|missing|empty|lost|without)\s(?:an? |the )?(?:/etc/docker/)?daemon\.json\b",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"(?<!insecure )\b(?:runtimes?:|default[- ]runtime(?: is| =|:)?|runtimes (?:are|is))\s{0,2}"
    r"((?:io\.containerd\.\S{1,20}|[\w.-]{2,20})(?:[, ]{1,2}(?:and )?(?:io\.containerd\.\S{1,20}|"
    r"runc|crun|nvidia))*)",
    re.IGNORECASE,
)
_CGROUPS = re.compile(
    r"\bcgroup[ -]?driver\W{0,4}(?:is |set to |= ?)?systemd\b|\bsystemd cgroup(?:s\b| driver\b)|"
    r"\bnative\.cgroupdriver=systemd\b|\bSystemdCgroup\W{1,4}true\b",
    re.IGNORECASE,
)
_CDI_FILE = re.compile(r"(?:/etc|/var/run)/cdi/\S*nvidia\S*")
# The driver whose files a CDI description is said to list.
_CDI_DRIVER = re.compile(
    r"\b(?:cdi\b[^;\n]{0,20}\b(?:spec(?:ification)?|description|file|yaml)|nvidia\.yaml)\b"
    r"[^;\n]{0,60}?\b(\d{3}\.\d{2,3}(?:\.\d{2})?)\b",
    re.IGNORECASE,
)
_CONTEXT = re.compile(r"\bcontext(?: is| was)?[ :=]{1,2}([\w.-]{1,60})")


def stated_container_engine(report: Stated, packages: SortedPackages) -> Reading[ContainerEngine]:
    """Docker, where a report says more of it than that there is a container."""
    box = report.table("container")
    prose = "; ".join((box.text("runtime"), box.text("text"), *report.strings("notes")))
    if "podman" in prose.lower() and any(map(_CDI_FILE.fullmatch, report.strings("absent"))):
        prose += "; no CDI"
    numbered, context = _DOCKER.search(prose), _CONTEXT.search(prose)
    rootless = "rootless" in prose.lower()
    docker = packages.stack.get("docker") or (version(numbered[1]) if numbered else None)
    runtimes = _runtimes(prose)
    away = re.search(r"docker desktop", prose, re.I) and _is_linux(report)
    desktop = "desktop-linux" if away else None
    groups = _CGROUPS.search(prose)
    told = _NO_CGROUPS.search(prose)
    cdi = _CDI_DRIVER.search(prose)
    known = (docker, context, rootless, runtimes.is_known, desktop, groups, told, cdi)
    if not any(known):
        return UNSTATED
    named = _DAEMON_JSON.search(prose)
    engine = ContainerEngine(
        name=_engine_named(prose),
        version=reading(docker, "container"),
        runtimes=runtimes,
        context=reading(context[1] if context else desktop, "container"),
        rootless=reading(rootless or None, "container"),
        cdi_driver=reading(version(cdi[1]) if cdi else None, "notes"),
        cgroup_driver=reading("systemd" if groups else None, "container"),
        config=_config(prose, bool(named)),
    )
    return seen(engine, "container")


def _config(prose: str, names_nvidia: bool) -> Reading[dict[str, str]]:
    """Settings of the daemon and of NVIDIA's runtime that a sentence quotes."""
    config = {"runtimes": "nvidia"} if names_nvidia else {}
    groups = _NO_CGROUPS.search(prose)
    if groups:
        config["nvidia-container-cli.no-cgroups"] = groups[1].lower()
    return seen(config, "container", partial=True) if config else UNSTATED


def _engine_named(prose: str) -> str:
    found = re.search(r"\b(podman|containerd|k3s|cri-o)\b", prose, re.I)
    return found[1].lower() if found and "docker" not in prose.lower() else "docker"


def _is_linux(report: Stated) -> bool:
    system = os_release(report.table("os").text("distro"), "")
    known = system is not None and system.id not in ("windows", "macos")
    return known and not report.table("os").flag("wsl")


def _runtimes(prose: str) -> Reading[tuple[str, ...]]:
    """The runtimes that the daemon knows, where a report quotes `docker info` or tells of one."""
    if _NO_RUNTIME.search(prose) or _NO_FILE.search(prose):
        return seen(("runc",), "container")
    answer = _DOCKER_INFO.search(prose) or _LISTED.search(prose)
    names = _RUNTIME.findall(answer[1]) if answer else []
    return seen(tuple(dict.fromkeys(map(str.lower, names))), "container") if names else UNSTATED
