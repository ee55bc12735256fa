"""Write a host down: every question that the probes ask, with its answer.

The result is a recorded host: a test fixture, or what a person attaches to a report. It
is scrubbed and condensed; texts of files that no probe reads are never in it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from typing import Any, Optional

from doctor.errors import UsageError
from doctor.facts import Facts, Missing, Reading, to_wire
from doctor.probes.collect import Options, collect
from doctor.probes.condense import condense, condense_answer, condense_info, condense_names
from doctor.probes.engine_names import engine_of
from doctor.probes.environment import cut_secret
from doctor.probes.host import CommandResult, FileStat, Host
from doctor.probes.launch_arguments import hide_secrets
from doctor.probes.processes import environ_of, parse_cmdline, parse_parent
from doctor.probes.recording_host import RecordingHost
from doctor.probes.rooted import resolve
from doctor.probes.scrub import Scrubber

_NAME_A_FOLDER = "name a folder that can be made"
_PROCESS = re.compile(r"/proc/(\d+)(?:/|$)")


def record(
    host: Host,
    folder: str,
    options: Optional[Options] = None,
    expect: Optional[Callable[[Facts], object]] = None,
) -> Facts:
    """Collect the facts of a host and write it down, with its facts as facts.json.

    `expect` raises where they are not what was asked for, before anything is written. What was
    begun is removed if it cannot be finished. Raises UsageError if the folder is not empty or
    cannot be written.
    """
    existed = _is_empty_folder(folder)
    recorder = RecordingHost(host)
    facts = collect(recorder, options or Options())
    if expect is not None:
        expect(facts)
    scrubber = Scrubber(
        host.environ().get("HOME", ""),
        (host.read_text("/proc/sys/kernel/hostname").value or "").strip(),
    )
    writer = _Writer(folder, recorder, scrubber)
    try:
        writer.write(facts)
    except BaseException as error:  # Ctrl-C too
        writer.remove(keep_folder=existed)
        if not isinstance(error, OSError):
            raise
        raise UsageError(f"{folder}: {error.strerror}", _NAME_A_FOLDER) from error
    return facts


def _is_empty_folder(folder: str) -> bool:
    """True for a folder, False if it is still to be made; raises UsageError for anything else."""
    if not os.path.lexists(folder) and folder:
        return False
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise UsageError(f"{folder!r}: {error.strerror}", _NAME_A_FOLDER) from error
    if names:
        raise UsageError(f"{folder} is not empty", "name a new folder")
    return True


class _Writer:
    """Lays the answers out as `probes.recorded` reads them."""

    def __init__(self, folder: str, recorder: RecordingHost, scrubber: Scrubber) -> None:
        self.folder = folder
        self.answers = recorder
        self.scrub = scrubber
        self.engines = self._engines()
        self.links: dict[str, str] = {}
        self.written: set[str] = set()
        self._learn_links()

    def write(self, facts: Facts) -> None:
        """Write all files of the recording."""
        try:
            os.makedirs(self.folder, exist_ok=True)
        except RecursionError:  # it asks for each folder of a path that no system takes
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)) from None
        self._json("host.json", {"unlisted": Missing.NOT_STATED.value})
        self._json("links.json", self.links)
        self._json("paths.json", {**self._missing(), **self._present()})
        self._json("commands.json", [_command(a, r) for a, r in self.answers.commands.items()])
        self._json("sockets.json", self._sockets())
        self._json("disks.json", self._disks())
        self._json("env.json", self.answers.environ())
        for name, answer in self.answers.drivers.items():
            self._json(name, answer.value if answer.is_known else _reason(answer))
        for path, text in self.answers.texts.items():
            if text.value is not None and self._is_kept(path):
                self._text(path, text.value)
        self._json("facts.json", to_wire(facts))

    def remove(self, keep_folder: bool) -> None:
        """Take away what was written, and nothing else."""
        for name in self.written:
            path = os.path.join(self.folder, name)
            with contextlib.suppress(OSError):
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        if not keep_folder:
            with contextlib.suppress(OSError):
                os.rmdir(self.folder)

    def _engines(self) -> frozenset[str]:
        """Ids of the processes that are engines; others are nobody's business."""
        found = set()
        for path, answer in self.answers.texts.items():
            match = _PROCESS.match(path)
            if match and path.endswith("/cmdline") and engine_of(parse_cmdline(answer.value or "")):
                found.add(match[1])
        return frozenset(found)

    def _learn_links(self) -> None:
        """Links by the real path of their folder, folders before what lies in them."""
        for asked, target in self.answers.targets.items():
            if target.value and self._is_kept(asked):
                self.links[asked] = target.value
        for asked, real in sorted(self.answers.links.items()):
            folder, _, name = asked.rpartition("/")
            place = f"{self._place(folder).rstrip('/')}/{name}"
            if real.value is not None and real.value != place and self._is_kept(asked):
                self.links[place] = real.value

    def _is_kept(self, path: str) -> bool:
        match = _PROCESS.match(path)
        if match is None or match[1] == "1" or match[1] in self.engines:
            return True
        return path == f"/proc/{match[1]}/stat"

    def _place(self, path: str) -> str:
        """Where the recorded host will look for a path."""
        try:
            return resolve(path, self.links.get) or "/"
        except OSError:
            return path

    def _missing(self) -> dict[str, str]:
        """Why something could not be read, least telling first."""
        found: dict[str, str] = {}
        answers: dict[str, Reading[Any]]
        for answers in (
            self.answers.targets,
            self.answers.links,
            self.answers.stats,
            self.answers.folders,
        ):
            for path, answer in answers.items():
                if not answer.is_known and self._is_kept(path):
                    found[self._place(path)] = _reason(answer)["missing"]
        for path, answer in self.answers.texts.items():
            if not answer.is_known and self._is_kept(path):
                found[self._place(path)] = _reason(answer)["missing"]
        return found

    def _present(self) -> dict[str, Any]:
        """Folders with their names, and what exists without a text."""
        found: dict[str, Any] = {}
        for path, real in (*self.answers.links.items(), *self.answers.targets.items()):
            if real.value is not None and self._is_kept(path):
                found.setdefault(self._place(path), {})
        for path, stat in self.answers.stats.items():
            if stat.value is not None and self._is_kept(path):
                found[self._place(path)] = _stat(path, stat.value)
        for path, text in self.answers.texts.items():
            place = self._place(path)
            if not text.is_known and not text.is_absent and place in found:
                found[place]["missing"] = _reason(text)["missing"]
        for path, names in self.answers.folders.items():
            if names.value is not None and self._is_kept(path):
                known = condense_names(path, names.value)
                kept = [name for name in known if self._is_kept(f"{path}/{name}")]
                stated = found.get(self._place(path), {})
                # Which system a process sees is told by the identity of its root.
                found[self._place(path)] = {**stated, "names": kept} if "inode" in stated else kept
        return found

    def _sockets(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for (socket, target), answer in self.answers.sockets.items():
            known = condense_info(answer.value) if answer.value is not None else _reason(answer)
            found.setdefault(socket, {})[target] = known
        return found

    def _disks(self) -> dict[str, dict[str, Any]]:
        return {
            path: vars(answer.value) if answer.value is not None else _reason(answer)
            for path, answer in self.answers.disks.items()
        }

    def _text(self, path: str, text: str) -> None:
        place = self.scrub.text(self._place(path))
        target = os.path.join(self.folder, "files", place.lstrip("/"))
        match = _PROCESS.match(path)
        if match and match[1] in self.engines:
            text = self._of_process(path, match[1], text)
        elif match and path.endswith("/stat") and match[1] != "1":
            # What stands above an engine: its place in the tree, not its name.
            text = f"{match[1]} (process) S {parse_parent(text)}\n"
        self.written.add("files")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8", newline="") as file:
            file.write(self.scrub.text(condense(path, text)))

    def _of_process(self, path: str, pid: str, text: str) -> str:
        """An engine's command line and variables, without secrets."""
        if path.endswith("/cmdline"):
            return "\0".join(hide_secrets(parse_cmdline(text))) + "\0"
        if path.endswith("/environ"):
            kept = environ_of(self.answers.host, int(pid)).value or {}
            return "".join(f"{k}={cut_secret(k, v)}\0" for k, v in kept.items())
        return text

    def _json(self, name: str, value: Any) -> None:
        self.written.add(name)
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            # Facts keep their order: their schema comes first.
            json.dump(self.scrub.tree(value), file, indent=1, sort_keys=name != "facts.json")
            file.write("\n")


def _stat(path: str, stat: FileStat) -> dict[str, int]:
    kept = {"size": stat.size, "mode": stat.mode, "uid": stat.uid, "gid": stat.gid}
    is_root = path == "/" or path.endswith("/root/")
    return {**kept, "device": stat.device, "inode": stat.inode} if is_root else kept


def _reason(answer: Reading[Any]) -> dict[str, str]:
    return {"missing": (answer.missing or Missing.NOT_STATED).value}


def _command(argv: tuple[str, ...], answer: Reading[CommandResult]) -> dict[str, Any]:
    if answer.value is None:
        return {"argv": list(argv), **_reason(answer)}
    out, err = (condense_answer(argv, t) for t in (answer.value.stdout, answer.value.stderr))
    return {
        "argv": list(argv),
        "returncode": answer.value.returncode,
        "stdout": out,
        "stderr": err,
    }
