from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.intake.docker_lines import expand, instructions
from doctor.intake.formats import compose, dockerfile
from doctor.intake.requirement_file import logical_lines, read_requirements
from doctor.intake.shell_commands import commands

PIECES = st.sampled_from(
    [
        *(
            "FROM ",
            "a",
            "nvidia/cuda:12.4.1-base-ubuntu22.04",
            " AS x",
            "\n",
            "\\\n",
            "RUN ",
            "<<EOF",
        ),
        *(
            "EOF",
            "pip install ",
            "torch==2.4.0",
            "-r requirements.txt",
            " && ",
            "'",
            '"',
            "$X",
            "${X",
        ),
        *("${X:-${Y}}", "${X:-y}", "ARG X=", "ENV X=1", "COPY --from=x /venv /venv", "CMD [", "]"),
        *(
            "# escape=`\n",
            "`\n",
            "# c\n",
            "uv pip install ",
            "--index-url https://h/whl/cu118",
            " ",
        ),
        *("services:\n", "  a:\n", "    image: b\n", "    <<: *a\n", "&a ", "*a", "conda install "),
    ]
)
TEXTS = st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=200)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_no_text_raises_and_every_place_is_a_line_of_the_file(text: str) -> None:
    count = text.count("\n") + 1
    for read in (dockerfile.parse, compose.parse):
        for scope in read(text).scopes:
            for package in scope.packages.value or ():
                assert 1 <= int(package.location.rpartition(":")[2]) <= count
    for package in read_requirements(text, "r").packages:
        assert 1 <= int(package.location.rpartition(":")[2]) <= count


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_pieces_lie_within_the_text(text: str) -> None:
    lines = text.split("\n")
    assert all(1 <= found.line <= len(lines) for found in instructions(text))
    assert all(1 <= number <= len(lines) for number, _ in logical_lines(text))
    for command in commands(text, {"X": "1"}):
        assert len(command.words) == len(command.places)
        assert all(0 <= place < len(text) for place in command.places)


def test_variables_are_put_in_place_as_the_reference_says() -> None:
    values = {"A": "1", "EMPTY": ""}
    cases = {
        "$A-${A}": "1-1",
        "${A:-x}${B:-x}${EMPTY:-x}": "1xx",
        "${A:+x}${B:+x}": "x",
        "\\$A": "$A",
        "$B ${B}": "$B ${B}",
        "${B:-$A}": "1",
    }
    assert {text: expand(text, values) for text in cases} == cases


def test_lines_continue_over_comments_and_heredocs_end() -> None:
    text = "# escape=`\nFROM a\nRUN one `\n  # not this\n\n  two\n"
    text += "RUN <<-A <<'B'\n\tx\n\tA\ny\nB\nCMD z\n"
    found = instructions(text)
    assert [(i.keyword, i.line) for i in found] == [
        ("FROM", 2),
        ("RUN", 3),
        ("RUN", 7),
        ("CMD", 12),
    ]
    assert found[1].text.split() == ["one", "two"]
    assert found[1].line_at(found[1].text.index("two")) == 6
    assert found[2].heredocs == ((8, "x"), (10, "y"))


def test_an_unquoted_bound_is_a_redirection() -> None:
    (found,) = commands("pip install torch>=2.4 'vllm>=0.9' > log", {})
    assert found.words == ("pip", "install", "torch", "vllm>=0.9")


def test_an_endless_merge_of_aliases_ends() -> None:
    text = "services: &s\n  <<: *s\n  a:\n    image: vllm/vllm-openai:v0.20.0\n    <<: *s\n"
    assert [scope.id for scope in compose.parse(text).scopes] in ([], ["a"])
