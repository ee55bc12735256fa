"""Says whether a service is still what was applied, on its own machine and without doctor.

    drift_check.py HOME [--user]

Standard library, Python 3.9; state_probe.py lies beside it. Answers 1 and one line for each
difference. Writes HOME/metrics/drift.prom for the textfile collector of node_exporter.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import time
from collections import Counter
from typing import Any

WANTED = {"ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no"}


def question_for(goal: dict[str, Any]) -> dict[str, Any]:
    """What to ask the probe of the state, from the goal that was applied."""
    model = goal.get("model")
    return {
        "home": goal["home"],
        "files": [file["path"] for file in goal["files"]],
        "models": {model["path"]: model["files"]} if model else {},
        "unit": goal["unit"],
        "timers": [unit for extra in goal.get("extras", []) for unit in extra["units"]],
        "user": goal["scope"] == "user",
        "container": goal.get("container"),
        "deep": True,
    }


def compare(goal: dict[str, Any], state: dict[str, Any]) -> list[dict[str, str]]:
    """All differences between a goal and a state: kind, subject, text."""
    found = [*_release(goal, state), *_files(goal, state), *_run(goal, state)]
    for path in [model["path"]] if (model := goal.get("model")) else []:
        found += [_row("model", path, fault) for fault in state["models"].get(path, [])]
    box = goal.get("container") or {}
    found += [_row("image", box.get("image", ""), fault) for fault in state.get("image", [])]
    found += [_row("container", box.get("name", ""), f) for f in state.get("container", [])]
    for extra in goal.get("extras", []):
        for unit in extra["units"]:
            found += _unit("timer", unit, state.get("timers", {}).get(unit, {}))
    return found


def _row(kind: str, subject: str, text: str) -> dict[str, str]:
    return {"kind": kind, "subject": subject, "text": text}


def _release(goal: dict[str, Any], state: dict[str, Any]) -> list[dict[str, str]]:
    release = goal.get("release") or {"name": "", "files": []}
    name = release["name"]
    if state["current"] != name:
        seen = state["current"] or "nothing"
        return [_row("release", "current", f"leads to {seen}, not to {name}")]
    found = [_row("release", name, fault) for fault in state.get("damage", [])]
    lock = next((f["text"] for f in release["files"] if f["path"] == "stack.lock"), None)
    if state["lock"] != lock:
        found.append(_row("lock", "stack.lock", "is another than the one applied"))
    return found


def _files(goal: dict[str, Any], state: dict[str, Any]) -> list[dict[str, str]]:
    found = []
    wanted = [*goal["files"], *(f for e in goal.get("extras", []) for f in e["files"])]
    for file in wanted:
        there = state["files"].get(file["path"])
        kind = "unit" if file["path"].endswith((".service", ".timer")) else "file"
        if there is None:
            found.append(_row(kind, file["path"], "is not there"))
        elif there["text"] != file["text"]:
            found.append(_row(kind, file["path"], "has another content"))
        elif there["mode"] != file["mode"]:
            text = f"has mode {there['mode']:o}, not {file['mode']:o}"
            found.append(_row(kind, file["path"], text))
    return found


def _run(goal: dict[str, Any], state: dict[str, Any]) -> list[dict[str, str]]:
    engines = [process for process in state["processes"] if process["config"]]
    config = goal["home"] + "/service.json"
    text = next((file["text"] for file in goal["files"] if file["path"] == config), "")
    wanted = (list(goal["argv"]), hashlib.sha256(text.encode()).hexdigest())
    found = []
    if not engines:
        found.append(_row("process", goal["profile"], "the engine does not run"))
    elif wanted not in [(list(p["argv"]), p["config"]) for p in engines]:
        same = any(list(process["argv"]) == wanted[0] for process in engines)
        what = "an older configuration" if same else "other arguments"
        found.append(_row("process", goal["profile"], f"the engine runs with {what}"))
    if goal["supervisor"] != "process":
        return found + _unit("unit", goal["unit"], state.get("unit", {}))
    if not any("watch" in p["argv"][2:5] for p in state["processes"] if not p["config"]):
        found.append(_row("watcher", goal["profile"], "nobody watches the engine"))
    return found


def _unit(kind: str, name: str, seen: dict[str, str]) -> list[dict[str, str]]:
    return [
        _row(kind, name, f"{key} is {seen.get(key) or 'unknown'}, not {value}")
        for key, value in WANTED.items()
        if seen.get(key) != value
    ]


def metrics(name: str, found: list[dict[str, str]], now: float) -> str:
    """The result for Prometheus."""
    label = name.replace("\\", "\\\\").replace('"', '\\"')
    kinds = Counter(row["kind"] for row in found)
    rows = [
        "# HELP doctor_drift Differences between a service and what was applied, by kind.",
        "# TYPE doctor_drift gauge",
        *(f'doctor_drift{{profile="{label}",kind="{k}"}} {n}' for k, n in sorted(kinds.items())),
        "# HELP doctor_drift_differences All differences of a service.",
        "# TYPE doctor_drift_differences gauge",
        f'doctor_drift_differences{{profile="{label}"}} {len(found)}',
        "# HELP doctor_drift_checked_seconds When that was looked at last.",
        "# TYPE doctor_drift_checked_seconds gauge",
        f'doctor_drift_checked_seconds{{profile="{label}"}} {int(now)}',
    ]
    return "\n".join(rows) + "\n"


def write(path: str, text: str) -> None:
    """Replace a file whole, readable by everyone."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    scratch = path + ".part"
    with open(scratch, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(scratch, 0o644)
    os.replace(scratch, path)


def main(home: str) -> int:
    """Compare the service below a folder with what was applied to it."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    state_probe = importlib.import_module("state_probe")
    try:
        with open(os.path.join(home, "applied.json"), encoding="utf-8") as file:
            goal = json.load(file)
    except (OSError, ValueError) as fault:
        print(f"{home}/applied.json: {fault}")
        return 2
    found = compare(goal, state_probe.probe(question_for(goal)))
    for row in found:
        print(f"{row['kind']}: {row['subject']} {row['text']}")
    print(f"{goal['profile']}: {len(found)} differences")
    write(os.path.join(home, "metrics", "drift.prom"), metrics(goal["profile"], found, time.time()))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
