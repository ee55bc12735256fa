"""What a Prometheus needs to watch a service: where to scrape, and when to raise an alert.

Two files to be taken over into its configuration. Names of metrics are those of the engine's
launch row, limits those of the profile. P0 is for now, P1 for the same day.
"""

from __future__ import annotations

from typing import Any

import yaml

from doctor.matrix.launching import Launch
from doctor.profile.schema import Profile
from doctor.provision.goal import SYSTEM, Extra, ManagedFile

SUSTAINED = "15m"
_WINDOW = "5m"


def monitoring_of(profile: Profile, row: Launch, home: str, scope: str) -> Extra | None:
    """The files for Prometheus; None if the profile wants no metrics or the engine has none."""
    wanted = profile.monitoring
    if not wanted.metrics or not row.metrics:
        return None
    folder = f"{home}/monitoring"
    files = (
        ManagedFile(f"{folder}/scrape.yml", _yaml({"scrape_configs": [scrape(profile, row)]})),
        ManagedFile(f"{folder}/alerts.yml", _yaml({"groups": [alerts(profile, row)]})),
    )
    options = {
        "monitoring_name": profile.name,
        "monitoring_node_exporter": wanted.node_exporter and scope == SYSTEM,
        "monitoring_textfiles": _textfiles(profile),
    }
    return Extra("monitoring", files, (), options)


def _textfiles(profile: Profile) -> list[str]:
    """What its timers write for the textfile collector."""
    timers = {"drift.prom": profile.drift_timer, "check.prom": profile.check_timer}
    return [name for name, timer in timers.items() if timer is not None]


def job_of(profile: Profile) -> str:
    """The name of its job in Prometheus."""
    return f"doctor-{profile.name}"


def scrape(profile: Profile, row: Launch) -> dict[str, Any]:
    """The job that scrapes the engine. A key is named by the file that holds it."""
    host = profile.serving.host
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104
    found: dict[str, Any] = {
        "job_name": job_of(profile),
        "metrics_path": row.metrics,
        "static_configs": [{"targets": [f"{shown}:{profile.serving.port}"]}],
    }
    kind, _, place = profile.serving.api_key.partition(":")
    if kind == "file" and row.key_env:
        found["authorization"] = {"type": "Bearer", "credentials_file": place}
    return found


def alerts(profile: Profile, row: Launch) -> dict[str, Any]:
    """The rules of one service; those whose metric the engine lacks are not there."""
    rules = [_down(profile), *_errors(profile, row), *_memory(profile, row), *_ttft(profile, row)]
    if profile.drift_timer:
        rules.append(_drift(profile))
    if profile.check_timer:
        rules.append(_unfit())
    return {"name": job_of(profile), "rules": rules}


def _rule(name: str, expression: str, pause: str, priority: str, text: str) -> dict[str, Any]:
    return {
        "alert": name,
        "expr": expression,
        "for": pause,
        "labels": {"severity": "critical" if priority == "P0" else "warning", "priority": priority},
        "annotations": {"summary": text},
    }


def _down(profile: Profile) -> dict[str, Any]:
    text = f"{profile.name} does not answer"
    return _rule("EngineDown", f'up{{job="{job_of(profile)}"}} == 0', "2m", "P0", text)


def _errors(profile: Profile, row: Launch) -> list[dict[str, Any]]:
    failed, every = row.counters.get("failed", ()), row.counters.get("requests", ())
    if not failed or not every:
        return []
    share = f"{_rate(failed[0], profile)} / {_rate(every[0], profile)}"
    limit = profile.monitoring.error_percent
    text = f"more than {limit:g} % of the requests to {profile.name} fail"
    return [_rule("RequestsFail", f"{share} > {limit / 100:g}", "5m", "P0", text)]


def _memory(profile: Profile, row: Launch) -> list[dict[str, Any]]:
    limit = profile.monitoring.memory_percent
    found = []
    usage = row.counters.get("kv_usage", ())
    if usage:
        expression = " or ".join(f"max({_of(name, profile)})" for name in usage)
        text = f"the KV cache of {profile.name} has been more than {limit:g} % full for a while"
        rule = _rule("CacheFull", f"({expression}) > {limit / 100:g}", SUSTAINED, "P1", text)
        found.append(rule)
    if profile.monitoring.dcgm:
        used, free = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
        text = f"a GPU's memory has been more than {limit:g} % full for a while"
        share = f"{used} / ({used} + {free}) > {limit / 100:g}"
        found.append(_rule("GpuMemoryFull", share, SUSTAINED, "P1", text))
    if profile.monitoring.node_exporter:
        text = f"the machine's memory has been more than {limit:g} % full for a while"
        share = f"1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes > {limit / 100:g}"
        found.append(_rule("MemoryFull", share, SUSTAINED, "P1", text))
    return found


def _ttft(profile: Profile, row: Launch) -> list[dict[str, Any]]:
    names = row.counters.get("ttft", ())
    if not names:
        return []
    limit_s = profile.monitoring.ttft_ms / 1000
    buckets = f"sum by (le) (rate({_of(names[0] + '_bucket', profile)}[{_WINDOW}]))"
    expression = f"histogram_quantile(0.95, {buckets}) > {limit_s:g}"
    text = f"one in twenty requests to {profile.name} waits longer than {limit_s:g} s"
    return [_rule("FirstTokenSlow", expression, "10m", "P1", text)]


def _drift(profile: Profile) -> dict[str, Any]:
    of = f'{{profile="{profile.name}"}}'
    old = f"time() - doctor_drift_checked_seconds{of} > 3 * 86400"
    text = f"{profile.name} is no longer what was applied, or nobody has looked for three days"
    return _rule("Drifted", f"doctor_drift_differences{of} > 0 or {old}", "0m", "P1", text)


def _unfit() -> dict[str, Any]:
    text = "doctor check finds an error on {{ $labels.instance }}"
    return _rule(
        "Unfit", 'max by (instance) (doctor_verdict{verdict="fail"}) > 0', "0m", "P1", text
    )


def _rate(name: str, profile: Profile) -> str:
    return f"sum(rate({_of(name, profile)}[{_WINDOW}]))"


def _of(name: str, profile: Profile) -> str:
    """A selector with the job added to its labels."""
    bare, brace, labels = name.partition("{")
    job = f'job="{job_of(profile)}"'
    return f"{bare}{{{job},{labels}" if brace else f"{bare}{{{job}}}"


def _yaml(data: dict[str, Any]) -> str:
    head = "# Written by doctor from the profile and what is known of the engine's metrics.\n"
    return head + yaml.safe_dump(data, sort_keys=False, width=1000)
