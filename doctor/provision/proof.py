"""The last layer of verification: the engine itself answers, by the smoke test's ladder.

An engine on another machine listens there; its port is brought here through the same door
by which the machine is reached.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from doctor.errors import DoctorError
from doctor.facts import Version
from doctor.matrix import Matrix
from doctor.provision.driver.sets import DriverSet
from doctor.provision.goal import Goal
from doctor.provision.survey import read_facts, read_state
from doctor.provision.target import LOCAL, Target
from doctor.smoke.ask import Ask
from doctor.smoke.outcome import SmokeOutcome, SmokeVerdict
from doctor.smoke.run import smoke
from doctor.smoke.secret import Secret, read_secret

# Joins standard input and output to a port of the machine that runs it.
_JOIN = """\
import os, socket, sys, threading
port = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
port.settimeout(None)
def send():
    for data in iter(lambda: os.read(0, 65536), b""):
        port.sendall(data)
    port.shutdown(socket.SHUT_WR)
threading.Thread(target=send, daemon=True).start()
for data in iter(lambda: port.recv(65536), b""):
    os.write(1, data)
"""


@dataclass(frozen=True)
class Proof:
    """Whether the engine is proven, and in words what was seen."""

    is_proven: bool
    words: str
    outcome: SmokeOutcome | None = None


def prove(goal: Goal, target: Target, matrix: Matrix) -> Proof:
    """Ask the engine, or the driver. A fault of the proof itself is an answer too: not proven."""
    if goal.driver is not None:
        return _driver_proof(goal, goal.driver, target, matrix)
    if goal.npu is not None:
        from doctor.provision.npu.ordering import npu_proof

        return Proof(*npu_proof(goal.npu, read_facts(target), read_state(target, goal)))
    if goal.is_nothing:
        return Proof(True, "nothing is to be proven")
    try:
        with reached(goal.url, target) as url:
            key = _key(goal.key, target)
            version = Version.maybe(goal.version)
            ask = Ask(
                url=url,
                engine=goal.engine,
                version=version,
                key=key,
                timeout_s=goal.proof_s or None,
                known=goal.known_answer,
            )
            outcome = smoke(ask, matrix)
    except DoctorError as fault:
        return Proof(False, f"the engine could not be asked: {fault}")
    if outcome.verdict is SmokeVerdict.PROVEN:
        passed = sum(step.state.value == "passed" for step in outcome.steps)
        return Proof(True, f"{passed} steps of the smoke test passed", outcome)
    fault_step = outcome.fault
    words = f"{fault_step.name}: {fault_step.text}" if fault_step else "not everything was shown"
    return Proof(False, f"the smoke test failed: {words}", outcome)


def _driver_proof(goal: Goal, wanted: DriverSet, target: Target, matrix: Matrix) -> Proof:
    """The layers of a driver; none may fail, and those that were skipped are named."""
    from doctor.provision.driver.proof import Layer, layers, words_of
    from doctor.provision.driver.use import read_use

    state = read_state(target, goal).driver
    if state is None:
        return Proof(False, "the machine did not say what is installed")
    facts = read_facts(target)
    shown = layers(wanted, state, facts, read_use(target, wanted, facts, matrix))
    return Proof(all(layer.state is not Layer.FAILED for layer in shown), words_of(shown))


def _key(reference: str, target: Target) -> Secret:
    """The key that the service takes, read where it lies and kept in memory."""
    if not reference or target.kind == LOCAL:
        return read_secret(reference)
    kind, _, place = reference.partition(":")
    path = f"/etc/credstore/{place}" if kind == "credential" else place
    return Secret(reference, target.run(["/bin/cat", path]).strip())


@contextmanager
def reached(url: str, target: Target) -> Iterator[str]:
    """A URL at which this machine reaches a server that listens on the target."""
    if target.kind == LOCAL:
        yield url
        return
    port = urlsplit(url).port or 80
    with socket.create_server(("127.0.0.1", 0)) as door:
        ended = threading.Event()
        keeper = threading.Thread(target=_keep, args=(door, target, port, ended), daemon=True)
        keeper.start()
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}"
        finally:
            ended.set()
            keeper.join(2)


def _keep(door: socket.socket, target: Target, port: int, ended: threading.Event) -> None:
    """One program on the target for each connection."""
    while not ended.is_set():
        if select.select([door], [], [], 0.1)[0]:
            visitor, _ = door.accept()
            threading.Thread(target=_serve, args=(visitor, target, port), daemon=True).start()


def _serve(visitor: socket.socket, target: Target, port: int) -> None:
    command = target.command(["/usr/bin/python3", "-c", _JOIN, str(port)])
    with (
        visitor,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as joint,
    ):
        if joint.stdin is None or joint.stdout is None:
            return
        sender = threading.Thread(target=_send, args=(visitor, joint), daemon=True)
        sender.start()
        with suppress(OSError):
            for data in iter(lambda: os.read(joint.stdout.fileno(), 65536), b""):  # type: ignore[union-attr]
                visitor.sendall(data)
            visitor.shutdown(socket.SHUT_RDWR)
        sender.join(2)


def _send(visitor: socket.socket, joint: subprocess.Popen[bytes]) -> None:
    if joint.stdin is None:
        return
    with suppress(OSError):
        for data in iter(lambda: visitor.recv(65536), b""):
            joint.stdin.write(data)
            joint.stdin.flush()
    with suppress(OSError):
        joint.stdin.close()
