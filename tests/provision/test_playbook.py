"""What reaches Ansible, systemd and ssh is data, whatever stands in a profile."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from doctor.errors import UsageError
from doctor.profile.schema import Service
from doctor.provision.playbook import RoleResult, _heard, unsafe_yaml
from doctor.provision.target import Target, parse_target
from doctor.provision.unit import Kind, unit_text

PLAIN = st.text(st.characters(blacklist_categories=["Cs"]), max_size=60)


class _Unsafe(str):
    """A text that came with the tag."""

    __slots__ = ()


class _Loader(yaml.SafeLoader):
    """Reads the tag as Ansible does."""


def _construct(_loader: yaml.SafeLoader, node: yaml.ScalarNode) -> _Unsafe:
    return _Unsafe(node.value)


_Loader.add_constructor("!unsafe", _construct)


def every_text(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in every_text(item)]
    if isinstance(value, list):
        return [text for item in value for text in every_text(item)]
    return [value] if isinstance(value, str) else []


@given(st.dictionaries(st.just("x"), st.recursive(PLAIN, st.lists, max_leaves=5)))
def test_every_text_is_tagged_and_comes_through_whole(variables: dict[str, Any]) -> None:
    found = yaml.load(unsafe_yaml(variables), Loader=_Loader)  # noqa: S506 - safe but for the tag
    assert found == variables
    assert all(isinstance(text, _Unsafe) for text in every_text(found) if text)


@pytest.mark.parametrize("home", ["relative", "/a b", "/a%h", "/a$b", "/a\nUser=root", '/a"'])
def test_a_folder_that_a_unit_would_read_otherwise_is_refused(home: str) -> None:
    with pytest.raises(UsageError):
        unit_text(home, Service(), "SIGTERM", Kind())


def test_a_unit_says_how_its_engine_ends() -> None:
    kind = Kind(is_system=True, account="doctor", credential="LoadCredential=k\n")
    text = unit_text("/opt/doctor/demo", Service(stop_s=42), "SIGINT", kind)
    for line in ("KillSignal=SIGINT", "TimeoutStopSec=42", "User=doctor", "LoadCredential=k"):
        assert f"\n{line}\n" in text
    assert "ProtectSystem=strict" in text
    assert "User=" not in unit_text("/home/u/x", Service(), "SIGTERM", Kind())


def test_the_unit_of_a_container_tidies_up_after_its_client() -> None:
    text = unit_text("/opt/doctor/demo", Service(), "SIGINT", Kind(True, is_container=True))
    assert "ExecStopPost=/usr/bin/python3 -I /opt/doctor/demo/bin/run_service.py tidy" in text
    assert "After=network-online.target docker.service" in text
    assert "User=" not in text
    assert "ProtectSystem=strict" in text


@pytest.mark.parametrize(
    "text",
    [
        "ssh://-oProxyCommand=x",
        "ssh://a b",
        "docker://a;b",
        "docker://u@c",
        "ssh://h:1:2",
        "http://x",
    ],
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_target(text)


def test_words_for_another_machine_are_quoted_for_its_shell() -> None:
    command = parse_target("ssh://root@host:22").command(["cat", "a; b", "$(c)"])
    assert command[-2:] == ["root@host", "cat 'a; b' '$(c)'"]
    assert Target().command(["cat", "a; b"]) == ["cat", "a; b"]


def test_of_a_loop_the_item_that_failed_is_told() -> None:
    for how in ("failed", "unreachable"):
        items = [{"changed": True, "msg": "fine"}, {how: True, "msg": "no running container x"}]
        answer = {"msg": "All items completed", "results": items}
        data = {"host": "machine", "task": "Make the folders", "res": answer}
        result = RoleResult()
        _heard({"event": f"runner_on_{how}", "event_data": data}, result, lambda _: None)
        assert result.failure == "Make the folders: no running container x"
