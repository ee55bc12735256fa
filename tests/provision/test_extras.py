"""Timers and files for monitoring: planned, kept, changed, taken away, looked for in drift."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from doctor.errors import UsageError
from doctor.matrix import load_matrix
from doctor.profile.read import find_profile
from doctor.profile.schema import CheckTimer, DriftTimer, Profile, RestartTimer
from doctor.provision.drift import compare
from doctor.provision.goal import SYSTEM, USER, Goal, goal_text
from doctor.provision.noted import goal_before
from doctor.provision.plan import Plan, make_plan
from doctor.provision.survey import FileState, State, program_module
from doctor.provision.timers import Place, timers_of
from doctor.resources import resource
from tests.provision.made import EXTRAS, MEANS, bare_state, make_goal, state_of, with_extras

TIMER = EXTRAS[0].units[0]


def plan(goal: Goal, state: State) -> Plan:
    return make_plan("local", goal, state, MEANS)


def names(goal: Goal, state: State) -> list[str]:
    return [step.name for step in plan(goal, state).steps]


def program(name: str) -> ModuleType:
    return program_module(resource("playbooks", "roles", "timers", "files", name))


def test_extras_are_laid_after_the_service_and_then_left_alone() -> None:
    goal = with_extras(make_goal())
    assert names(goal, bare_state(goal))[-4:] == [
        "switch_service", "set_timers", "set_monitoring", "verify",
    ]  # fmt: skip
    assert plan(goal, state_of(goal)).is_empty
    assert compare(goal, state_of(goal, lock=None)) == []


@pytest.mark.parametrize(
    ("change", "step", "kind"),
    [
        ({"timers": {}}, "set_timers", "timer"),
        ({"timers": {TIMER: {"ActiveState": "active"}}}, "set_timers", "timer"),
        ({"/units/demo.timer": FileState(0o644, "edited\n")}, "set_timers", "unit"),
        ({"/units/demo.service": None}, "set_timers", "unit"),
    ],
)
def test_a_timer_that_drifted_is_found_and_mended(
    change: dict[str, object], step: str, kind: str
) -> None:
    goal = with_extras(make_goal())
    state = state_of(goal, lock=None)
    if "timers" in change:
        state = msgspec.structs.replace(state, timers=change["timers"])
    else:
        state = msgspec.structs.replace(state, files={**state.files, **change})
    assert names(goal, state) == [step, "verify"]
    assert {difference.kind for difference in compare(goal, state)} == {kind}


def test_extras_that_are_not_wanted_are_taken_away_by_their_roles() -> None:
    old, goal = with_extras(make_goal()), make_goal()
    steps = plan(goal, state_of(old)).steps
    assert [s.name for s in steps][:3] == ["switch_service", "remove_timers", "remove_monitoring"]
    assert steps[1].variables["timers_remove"] == ["/units/demo.service", "/units/demo.timer"]
    assert steps[0].variables["service_remove"] == []
    assert steps[2].variables["monitoring_node_exporter"] is False


def test_the_way_back_to_nothing_takes_them_away_first() -> None:
    goal = with_extras(make_goal())
    bare = goal_before(goal, bare_state(goal))
    assert bare.extras == ()
    found = names(bare, state_of(goal))
    assert found == ["remove_timers", "remove_monitoring", "remove_service"]
    assert plan(bare, bare_state(goal)).is_empty


def test_the_way_back_holds_timers_as_they_were() -> None:
    old = with_extras(make_goal())
    edited = {"/units/demo.timer": FileState(0o600, "by hand\n")}
    state = state_of(old, files={**state_of(old).files, **edited}, applied=goal_text(old))
    before = goal_before(make_goal(), state)
    assert [f.text for f in before.extras[0].files] == ["s\n", "by hand\n"]


def test_another_option_is_reason_enough() -> None:
    goal = with_extras(make_goal())
    options = {**EXTRAS[1].options, "monitoring_node_exporter": True}
    more = msgspec.structs.replace(EXTRAS[1], options=options)
    wanted = msgspec.structs.replace(goal, extras=(EXTRAS[0], more))
    steps = plan(wanted, state_of(goal)).steps
    assert [s.name for s in steps] == ["switch_service", "set_monitoring", "verify"]
    assert steps[1].undo == "none"


def _profile(**changes: object) -> Profile:
    wanted = {"restart_timer": RestartTimer(at="03:30", drain_s=7), "drift_timer": DriftTimer()}
    return msgspec.structs.replace(find_profile("vllm-cpu"), **{**wanted, **changes})


def test_units_of_timers() -> None:
    row = load_matrix().launch("vllm-cpu", None)
    assert row is not None
    extra = timers_of(_profile(), row, Place("/opt/doctor/x", "/etc/systemd/system", SYSTEM))
    assert extra is not None
    files = {file.path.rpartition("/")[2]: file.text for file in extra.files}
    assert extra.units == ("doctor-vllm-cpu-restart.timer", "doctor-vllm-cpu-drift.timer")
    assert "OnCalendar=*-*-* 03:30:00" in files["doctor-vllm-cpu-restart.timer"]
    assert "systemctl restart doctor-vllm-cpu" in files["doctor-vllm-cpu-restart.service"]
    drain = json.loads(files["drain.json"])
    assert drain["drain_s"] == 7
    assert drain["names"] == ["vllm:num_requests_running", "vllm:num_requests_waiting"]
    assert all("%" not in text for text in files.values())
    mine = timers_of(_profile(), row, Place("/home/u/x", "/home/u/units", USER))
    assert mine is not None
    assert "systemctl --user restart" in next(
        f.text for f in mine.files if f.path.endswith("restart.service")
    )
    none = _profile(restart_timer=None, drift_timer=None)
    assert timers_of(none, row, Place("/x", "/y", SYSTEM)) is None


def test_a_machine_is_judged_only_where_doctor_is() -> None:
    row = load_matrix().launch("vllm-cpu", None)
    assert row is not None
    wanted = _profile(restart_timer=None, drift_timer=None, check_timer=CheckTimer(at="05:10"))
    extra = timers_of(
        wanted, row, Place("/opt/doctor/x", "/etc/systemd/system", SYSTEM, "/venv/python")
    )
    assert extra is not None
    assert extra.units == ("doctor-vllm-cpu-check.timer",)
    service, timer = (file.text for file in extra.files)
    assert "ExecStart=/venv/python -m doctor check " in service
    assert "-o prometheus=/opt/doctor/x/metrics/check.prom" in service
    assert "OnCalendar=*-*-* 05:10:00" in timer
    for python in ("", "/a b/python", "/100%/python", "/$X/python"):
        with pytest.raises(UsageError, match="check_timer"):
            timers_of(wanted, row, Place("/x", "/y", SYSTEM, python))


class _Metrics(BaseHTTPRequestHandler):
    """Busy for two answers, then idle; wants a key."""

    asked: list[str] = []  # noqa: RUF012 - one server, one list

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("Authorization", ""))
        busy = 3 - len(self.asked)
        body = f'# TYPE run gauge\nrun{{model="a b}} 9"}} {max(busy, 0)}.0\nwait 0\n'.encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Quiet."""


@contextmanager
def _engine() -> Iterator[str]:
    _Metrics.asked = []
    with HTTPServer(("127.0.0.1", 0), _Metrics) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
        server.shutdown()
        thread.join()


@pytest.mark.real
@pytest.mark.parametrize(
    ("drain_s", "words", "asked"), [(60, "no request is at work", 3), (0, "still at work", 1)]
)
def test_a_restart_waits_for_an_idle_moment(
    tmp_path: Path, drain_s: int, words: str, asked: int
) -> None:
    (tmp_path / "key").write_text("secret\n")
    module = program("drain_service.py")
    setattr(module, "PAUSE_S", 0.01)  # noqa: B010 - a module that no type checker sees
    mark = tmp_path / "metrics" / "draining"
    with _engine() as url:
        said = module.drain(
            {
                "url": url,
                "names": ["run", "wait"],
                "drain_s": drain_s,
                "mark": str(mark),
                "key": f"file:{tmp_path}/key",
            }
        )
    assert words in said
    assert _Metrics.asked == ["Bearer secret"] * asked
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "found"),
    [("a 1\nb 2.5\n", 3.5), ("c 1\n", None), ('a{x="}"} 4 1700\n', 4.0), ("a nonsense\n", None)],
)
def test_requests_in_flight(text: str, found: float | None) -> None:
    assert program("drain_service.py").in_flight(text, ["a", "b"]) == found
