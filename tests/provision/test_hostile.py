"""Hostile profiles: refused with one line, or carried as data. Canaries stay untouched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.errors import UsageError
from doctor.profile.read import SIZE_LIMIT, parse_profile, read_profile
from doctor.provision.playbook import unsafe_yaml
from tests.provision.machine import Machine, fresh_machine
from tests.provision.sandbox import Sandbox

CANARY = "/tmp/doctor-canary"
SECRET = "canary-91b4"  # noqa: S105 - a mark to look for
EVIL = (
    f"; touch {CANARY}",
    f"$(touch {CANARY})",
    f"`touch {CANARY}`",
    f"{{{{ lookup('pipe', 'touch {CANARY}') }}}}",
    f"{{% for x in [lookup('pipe', 'touch {CANARY}')] %}}{{% endfor %}}",
    f"!unsafe {{{{ lookup('pipe', 'touch {CANARY}') }}}}",
    f"\nExecStartPre=/bin/touch {CANARY}\n",
    f"x\n[Service]\nExecStop=/bin/touch {CANARY}",
    "%h/%n %i %% %t",
    "../../../../etc/passwd",
    "/etc/../../root/x",
    "-oProxyCommand=touch",
    f"'; touch {CANARY}; '",
    f'"; touch {CANARY}; "',
    "a\x00b",
    "\x1b[2J\x1b]0;x\x07",
    "\u202egpj.exe",
    "x" * 10_000,
    "--help",
    "*",
    "~root",
)
BASE: dict[str, Any] = {
    "schema": "doctor/profile/v1",
    "name": "demo",
    "description": "d",
    "engine": {"name": "xllamacpp", "version": ""},
    "accelerator": {"vendor": "cpu"},
    "install": {"method": "venv", "python": "3.11", "requirements": ["xllamacpp"], "index": ""},
    "model": {"source": "embedded", "format": "gguf", "id": "", "revision": "", "token": ""},
    "serving": {
        "host": "127.0.0.1", "port": "8080", "name": "n", "api_key": "",
        "args": {"threads": "1"}, "env": {"A": "b"},
    },
    "service": {"account": "doctor", "restart": "no"},
    "restart_timer": {"at": "03:00"},
    "hold": {"packages": ["x"]},
}  # fmt: skip


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every text of a profile, and the keys of its free tables."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from places(value, (*path, key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from places(value, (*path, number))
    else:
        yield path


def put(path: tuple[Any, ...], text: str) -> str:
    """The profile with that text there, as YAML that says exactly this."""
    data = json.loads(json.dumps(BASE))
    at = data
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = text
    return yaml.safe_dump(data, allow_unicode=False)


# What may stand there is data that no program reads as anything else.
FREE = {("description",), ("serving", "name"), ("serving", "args", "threads"),
        ("serving", "env", "A")}  # fmt: skip
PATTERN = (("hold", "packages", 0), "*")


@pytest.mark.parametrize("path", list(places(BASE)), ids=lambda path: ".".join(map(str, path)))
def test_every_text_of_a_profile(path: tuple[Any, ...]) -> None:
    for text in EVIL:
        try:
            profile = parse_profile(put(path, text), "evil.yaml")
        except UsageError as fault:
            refusal = str(fault)
        else:
            refusal = ""
        if refusal:
            assert refusal.isprintable()
            assert len(refusal) < 600
            continue
        assert path in FREE or (path, text) == PATTERN, f"{path} takes {text[:40]!r}"
        assert len(text) <= 400
        assert text.isprintable()
        assert profile.name == "demo"
        assert text in yaml.load(unsafe_yaml({"x": text}), Loader=_Plain)["x"]  # noqa: S506


class _Plain(yaml.SafeLoader):
    """Reads the tag as a text."""


_Plain.add_constructor("!unsafe", lambda _, node: str(node.value))


@pytest.mark.parametrize("key", ["A B", "LD\nX", "a", "A=B", "A\x00", "$(x)", ""])
def test_names_of_variables(key: str) -> None:
    data = json.loads(json.dumps(BASE))
    data["serving"]["env"] = {key: "x"}
    with pytest.raises(UsageError):
        parse_profile(yaml.safe_dump(data), "evil.yaml")


def test_ten_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(yaml.safe_dump(BASE) + "# " + "x" * (10 << 20))
    with pytest.raises(UsageError, match=f"larger than {SIZE_LIMIT >> 10} KiB"):
        read_profile(path)


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Machine]:
    with fresh_machine(tmp_path) as found:
        yield found


@pytest.mark.slow
@pytest.mark.docker
def test_on_another_machine_canaries_are_untouched_and_the_key_is_seen_by_nobody(
    box: Sandbox, debian: Machine
) -> None:
    Path(CANARY).unlink(missing_ok=True)
    debian.run("mkdir", "-p", "/etc/keys")
    debian.run("tee", "/etc/keys/demo", text=SECRET)
    debian.run("chmod", "600", "/etc/keys/demo")
    carried = [text for text in EVIL if text.isprintable() and len(text) <= 400]
    env = {f"EVIL_{number}": text for number, text in enumerate(carried)}
    more = f"  api_key: file:/etc/keys/demo\n  env: {json.dumps(env)}\n"
    profile = box.profile(more=more)
    profile.write_text(profile.read_text() + f"description: {json.dumps(carried[3])}\n")
    for words in (("plan", profile), ("plan", profile, "--format", "json")):
        assert box.run_on(debian.by_ssh, *words, *box._files).status == 0
    answer = box.apply_on(debian.by_ssh, profile)
    assert answer.status == 0, answer.err
    drift = box.run_on(debian.by_ssh, "drift", profile, "--format", "json")
    assert drift.status == 0, drift.err

    assert not Path(CANARY).exists()
    assert debian.status("test", "-e", CANARY)[0] != 0
    pid = debian.run("systemctl", "show", "-p", "MainPID", "--value", "doctor-demo.service").strip()
    # Root of a container may not read it; the account itself may.
    read = ("runuser", "-u", "doctor", "--", "cat", f"/proc/{pid}/environ")
    environ = debian.run(*read).split("\0")
    assert f"LLAMA_API_KEY={SECRET}" in environ, "the engine has its key"
    assert {f"{name}={text}" for name, text in env.items()} <= set(environ)
    _seen_by_nobody(box, debian, answer.out + answer.err + drift.out + drift.err)


def _seen_by_nobody(box: Sandbox, debian: Machine, said: str) -> None:
    assert SECRET not in said
    for path in box.home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert SECRET.encode() not in path.read_bytes(), path
    look = f"grep -rlsF --exclude-dir=proc --exclude-dir=sys {SECRET} / ; true"
    found = set(debian.run("sh", "-c", look).split())
    # systemd lays the key out for that unit alone, in memory that root and the account can read.
    laid = {path for path in found if path.startswith("/run/credentials/doctor-demo.service/")}
    assert found - laid == {"/etc/keys/demo"}
    modes = {debian.run("stat", "-c", "%a", path).strip() for path in laid}
    assert modes <= {"400", "440"}
    shown = debian.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert SECRET not in shown.replace(look, "")
    assert SECRET not in debian.run("journalctl", "--no-pager")
