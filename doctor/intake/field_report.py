"""A field report: what a person states about a host in ten lines, mapped to facts.

Lenient on purpose: short names, versions or bounds of versions, prose. What is not
understood is kept as a note; nothing in a report can raise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from doctor.facts import UNSTATED, Facts, LogText, Workload, seen
from doctor.intake.devices import stated_devices, stated_topology
from doctor.intake.merge import merge
from doctor.intake.model_words import with_told
from doctor.intake.quotes import building, in_log, plainly, quoted, started
from doctor.intake.report_container import stated_container_engine
from doctor.intake.report_drivers import with_told_drivers
from doctor.intake.report_host import (
    stated_ascend,
    stated_host,
    stated_nvidia,
    stated_rocm,
)
from doctor.intake.report_packages import sort_packages, with_tags
from doctor.intake.report_scope import stated_scope
from doctor.intake.report_workload import stated_workload
from doctor.intake.stated import Stated
from doctor.intake.switch_words import with_switches
from doctor.intake.symptom_words import with_symptoms
from doctor.intake.told_devices import with_told_state

KEYS = frozenset(
    {
        "absent",
        "build_variant",
        "built_for",
        "cann",
        "container",
        "cpu",
        "cuda_driver_api",
        "cuda_toolkit",
        "driver",
        "driver_userspace",
        "engine",
        "engine_args",
        "engine_plan",
        "env",
        "gpus",
        "kernel_module",
        "log",
        "measured",
        "memory",
        "nnal",
        "notes",
        "npu_driver",
        "npu_firmware",
        "npus",
        "os",
        "packages",
        "python",
        "topology",
        "torch_arch_list",
    }
)


def looks_like(data: Any) -> bool:
    """Tell whether a parsed document is a field report: a table with at least one of its keys."""
    return isinstance(data, dict) and not KEYS.isdisjoint(data)


def read_field_report(data: Any) -> Facts:
    """Turn a parsed field report into facts. Never raises."""
    notes: list[str] = []
    report = Stated(data, "", notes)
    packages = sort_packages(report.table("packages"))
    python = with_tags(tuple(packages.python), report.strings("notes"))
    workload = stated_workload(report, python)
    typed: tuple[Facts, ...] = ()
    if workload is not None and not workload.args.is_known:
        typed = tuple(started(report.strings("notes"), workload.engine))
        workload = replace(workload, args=next((t.workloads[0].args for t in typed), UNSTATED))
    words = building(report.strings("notes"))
    if workload is not None and words:
        workload = replace(workload, building=seen(words, "notes"))
    words = plainly(report.strings("notes"))
    if workload is not None and words:
        workload = replace(workload, plainly=seen(words, "notes"))
    if workload is not None:
        workload = with_told(workload, report.strings("notes"))
        workload = with_switches(workload, report.strings("notes"))
        workload = with_symptoms(workload, report.strings("notes"))
    devices = with_told_state(stated_devices(report), report)
    topology = report.text("topology")
    facts = Facts(
        host=stated_host(report, packages),
        nvidia=with_told_drivers(stated_nvidia(report, packages), report),
        ascend=stated_ascend(report, packages),
        rocm=stated_rocm(packages),
        devices=devices,
        topology=stated_topology(topology, devices.value or ()),
        container_engine=stated_container_engine(report, packages),
        scopes=(stated_scope(report, python),),
        workloads=(workload,) if workload else (),
        logs=_logs(report, workload),
        notes=report.strings("notes") + ((f"topology: {topology}",) if topology else ()),
    )
    report.note_unread()
    told = (read for log in facts.logs for read in in_log(log.text))
    facts = merge(facts, *typed, *quoted(report.strings("notes")), *told)
    return replace(facts, notes=tuple(dict.fromkeys((*facts.notes, *notes))))


def _logs(report: Stated, workload: Workload | None) -> tuple[LogText, ...]:
    value = report.raw("log")
    lines = value if isinstance(value, list) else [value]
    text = "\n".join(line for line in lines if isinstance(line, str))
    return (LogText(text, workload.id if workload else ""),) if text.strip() else ()
