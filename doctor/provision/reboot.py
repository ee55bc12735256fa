"""A reboot between two steps: noted in the journal, done there or waited for here.

A step with `reboots` needs another boot before the next step. Another machine is rebooted by
Ansible and the run goes on. On this machine doctor would die with it: the run is suspended, and a
unit that looks for the run's mark takes it up after the boot.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from doctor.provision.goal import USER, Goal
from doctor.provision.journal import REBOOT, Entry, write_durably
from doctor.provision.runs import Run
from doctor.provision.survey import read_boot
from doctor.provision.target import LOCAL, Target

UNITS = Path("/etc/systemd/system")
MARK = "suspended"
REBOOT_S = 900
_UNIT = """\
# Written by doctor: takes up run {name} after a reboot, then goes away.
[Unit]
Description=doctor goes on with {profile} after a reboot
ConditionPathExists={mark}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
Environment="HOME={home}" "PATH={path}"
ExecStart="{python}" -m doctor apply {profile} --resume{user}
TimeoutStartSec=infinity

[Install]
WantedBy=multi-user.target
"""


# What systemd takes for itself, between quotation marks too.
_SPECIAL = re.compile(r"[\s%$\"\\\\']")


class Suspended(Exception):  # noqa: N818 - no fault
    """The run waits for a reboot of this machine, which a person must order."""


def awaited(entries: tuple[Entry, ...], boot: str) -> str:
    """The step whose reboot has not been while the machine is in `boot`; "" if none. Pure."""
    asked = [entry for entry in entries if entry.event == REBOOT]
    return asked[-1].step if asked and asked[-1].text == boot else ""


def asked_for(entries: tuple[Entry, ...]) -> bool:
    """True if a step that needs a reboot was begun: it cannot be taken back at once. Pure."""
    return any(entry.event == REBOOT for entry in entries)


def note(run: Run, step: str, target: Target) -> None:
    """Write down, before a step, that it needs a reboot, and in which boot it is made."""
    run.journal.write(REBOOT, step, read_boot(target))


def variables() -> dict[str, int]:
    """What the role reboot is told."""
    return {"reboot_timeout_s": REBOOT_S}


def suspend(run: Run, goal: Goal, target: Target) -> None:
    """Let the next boot take the run up where that can be, and raise Suspended."""
    if target.kind == LOCAL and os.getuid() == 0 and Path("/run/systemd/system").is_dir():
        lay_unit(run, goal)
    raise Suspended


def lay_unit(run: Run, goal: Goal, units: Path = UNITS) -> bool:
    """Write the unit that takes a run up and enable it; the mark that it looks for comes last.

    False for a Python or a folder whose path systemd would read otherwise.
    """
    mark, path = run.folder / MARK, os.environ.get("PATH", os.defpath)
    if any(_SPECIAL.search(text) for text in (str(mark), str(Path.home()), path, sys.executable)):
        return False
    text = _UNIT.format(
        name=run.name,
        profile=goal.profile,
        user=" --user" if goal.scope == USER else "",
        mark=mark,
        home=Path.home(),
        path=path,
        python=sys.executable,
    )
    unit = units / f"doctor-resume-{run.name}.service"
    write_durably(unit, text)
    wants = units / "multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    with suppress(FileExistsError):
        (wants / unit.name).symlink_to(unit)
    write_durably(mark, f"{goal.profile}\n")
    return True


def forget(run: Run, units: Path = UNITS) -> None:
    """Take away what was laid for the next boot; nothing if nothing was."""
    mark = run.folder / MARK
    if not mark.exists():
        return
    name = f"doctor-resume-{run.name}.service"
    for path in (units / "multi-user.target.wants" / name, units / name, mark):
        path.unlink(missing_ok=True)
