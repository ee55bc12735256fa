"""Disks that are full, read-only or closed: a clear answer, and nothing half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.asking import OLD_DRIVER, ROOT, Person

HOST = "H100x8,driver=550.54.15,python=3.11,ubuntu=22.04"
# Each verb with the exits that are right on a sound machine; {} is the home.
JUDGING = (
    ("check", (0, 1)),
    (f"check --facts {OLD_DRIVER}", (1,)),
    (f"resolve vllm --host {HOST}", (0,)),
    ("fit Qwen/Qwen3-32B --gpu H100 --count 2", (0, 3)),
    ("matrix verify", (0,)),
    (f"scan {ROOT}/tests/binaries/samples", (0,)),
    (f"diagnose {ROOT}/tests/intake/samples/log_vllm.txt", (1, 3)),
)
WRITING = (
    f"check --facts {OLD_DRIVER} -o json={{}}/report.json",
    "record {}/recording",
    "matrix update vllm",
    "profile lock llamacpp-cpu -o {}/stack.lock",
    "plan llamacpp-cpu --user",
    "apply llamacpp-cpu --user --resume",
    "rollback llamacpp-cpu --user",
    "drift llamacpp-cpu --user",
    "rollback llamacpp-cpu",
    "smoke",
)
READ_ONLY = "mount --bind {0} {0}\nmount -o remount,bind,ro {0}\n"
# Root without the right to pass over the modes of files.
CLOSED = """chown 65534 {0}\nchmod 700 {0}
exec setpriv --bounding-set=-dac_override,-dac_read_search "$@"\n"""
FULL = "mount -t tmpfs -o size=4k none {0}\ncat /dev/zero >{0}/filler 2>/dev/null || true\n"
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
PLACES = {
    "the home is read-only": READ_ONLY.format("/mnt"),
    "the home is full": FULL.format("/mnt"),
    "the home is another's": CLOSED.format("/mnt"),
    "no room for temporary files": "".join(map(FULL.format, TEMPORARY)),
    "/var is read-only": "mount -t tmpfs -o ro none /var",
    "everything is read-only": "".join(map(READ_ONLY.format, ("/mnt", "/var", *TEMPORARY, "/"))),
}
LEAN = ("the home is full", "the home is another's", "everything is read-only")


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.slow if name in LEAN else pytest.mark.heavy)
        for name in PLACES
    ]
)
def person(request: pytest.FixtureRequest, tmp_path: Path) -> Person:
    return Person(tmp_path, PLACES[request.param])


@pytest.mark.slow
def test_folders_of_another_in_a_home_are_passed_over(tmp_path: Path) -> None:
    """What a command under sudo leaves."""
    folders = "/mnt/.cache /mnt/.config /mnt/.local"
    person = Person(tmp_path, f"mkdir -p {folders}\n{CLOSED.format(folders)}")
    for line, right in JUDGING:
        person.ask(*words_of(line, person)).expect_clear(*right)
    answer = person.ask("check", "--python", "/mnt/.local/environment")
    answer.expect_clear(2)
    assert "may not look there" in answer.err


def words_of(line: str, person: Person) -> list[str]:
    return line.replace("{}", str(person.seen)).split()


def test_what_only_judges_answers_as_ever(person: Person) -> None:
    for line, right in JUDGING:
        answer = person.ask(*words_of(line, person))
        answer.expect_clear(*right)
        assert "doctor: " not in answer.err, (line, answer.err)


def test_what_writes_says_what_it_could_not_write(person: Person) -> None:
    for line in WRITING:
        person.ask(*words_of(line, person)).expect_clear()
    if "/mnt" in person.faults:  # nothing can be written at home
        answer = person.ask("apply", "llamacpp-cpu", "--user", "--yes")
        answer.expect_clear(2, 4)
        assert not list(person.home.iterdir())
