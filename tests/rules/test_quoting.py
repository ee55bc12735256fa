"""What comes from a host stands in a command as one word: people paste commands as root."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from doctor.diagnose import Request, cases
from doctor.facts import Expected, to_wire
from doctor.findings import OutcomeKind
from doctor.intake.field_report import read_field_report
from doctor.intake.snapshot import from_wire
from doctor.rules.engine import run_rule
from tests.rules.mutants import places
from tests.rules.test_rules import BY_CODE, MATRIX, load

# What would run if a remedy held it unquoted.
INJECTION = "x'y; touch pwned $(id) `id`"
FIRING = [(code, case) for code, case in load() if case["expect"] == "fires"]


def _variants(wire: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same host with one text spoiled: at its end, and at the first folder of a path."""
    spots = [n for n, (holder, key) in enumerate(places(wire)) if isinstance(holder[key], str)]
    for spot in spots:
        text = _spot(wire, spot)[0][_spot(wire, spot)[1]]
        for spoiled in {text + INJECTION, text.replace("/", f"/{INJECTION}/", 1)} - {text}:
            copied = copy.deepcopy(wire)
            holder, key = _spot(copied, spot)
            holder[key] = spoiled
            yield copied


def _spot(wire: dict[str, Any], number: int) -> tuple[Any, Any]:
    return list(places(wire))[number]


def _commands(code: str, wire: dict[str, Any]) -> Iterator[str]:
    with suppress(msgspec.ValidationError, ValueError):
        found = cases(from_wire(wire), MATRIX, Request(), Expected())
        for case in found[:1]:
            outcome = run_rule(BY_CODE[code], case, MATRIX)
            assert outcome.kind is not OutcomeKind.CRASHED, outcome.reason
            yield from (c for f in outcome.findings for r in f.remedies for c in r.commands)


@pytest.mark.parametrize("code", sorted({code for code, _ in FIRING}))
def test_no_text_of_a_host_becomes_shell(code: str) -> None:
    for case in (case for own, case in FIRING if own == code):
        facts = from_wire(case["facts"]) if "facts" in case else read_field_report(case["report"])
        for spoiled in _variants(to_wire(facts)):
            for command in _commands(code, spoiled):
                words = shlex.split(command, comments=True) if "pwned" in command else []
                assert "pwned" not in command or any(INJECTION in word for word in words), command


PROGRAMS = frozenset(
    """
    apt apt-cache apt-get apt-mark conda dkms dnf docker doctor echo fallocate grep hf ldconfig
    lspci mkswap modprobe mokutil npu-smi nvidia-ctk nvidia-modprobe nvidia-smi pip printf reboot
    kill dmesg ls podman source ss stat systemctl trtexec ulimit unset update-grub update-initramfs
    usermod uv virsh wsl.exe zypper rocm-smi amd-smi npm ip fuser
    """.split()  # noqa: SIM905 - a list in words
)


@pytest.mark.parametrize("code", sorted({code for code, _ in FIRING}))
def test_a_command_is_one(code: str) -> None:
    """It begins with a program, after variables: an option or a hint belongs in the text."""
    for case in (case for own, case in FIRING if own == code):
        facts = from_wire(case["facts"]) if "facts" in case else read_field_report(case["report"])
        for command in _commands(code, to_wire(facts)):
            words = shlex.split(command, comments=True)
            program = next(w for w in words if w != "sudo" and "=" not in w.partition(" ")[0])
            assert program in PROGRAMS | {"export"}, command
            assert not command.startswith(("apt-get", "dnf", "usermod", "systemctl")), "needs sudo"
