"""Files of strangers: what stands in them reaches no format as markup, command or name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doctor.checkup import check
from doctor.examine import Plans, Sources
from doctor.report import FORMATS, Report, Style, renderer
from doctor.report.redact import Redactor
from tests.report.hostile import ATTACKS, CANARIES, TRACES

ODD = [text.replace("\n", " ").replace("\ud800", "?").replace("\0", "?") for text in ATTACKS]
ODD += list(CANARIES.values())


def _files(folder: Path) -> Plans:
    """A requirements file, a Dockerfile and a compose file with odd texts wherever they fit."""
    requirements, dockerfile, compose = (
        folder / name for name in ("requirements.txt", "Dockerfile", "compose.yaml")
    )
    lines = [f"{odd}==1.0" for odd in ODD] + [f"--extra-index-url {odd}/whl/cu118" for odd in ODD]
    lines += [f"-r {odd}" for odd in ODD] + ["vllm==0.20.0"]
    requirements.write_text("\n".join(lines))
    body = [f"RUN pip install '{odd}' \"{odd}\" -r '{odd}'" for odd in ODD]
    body += [f"ENV VLLM_X={odd} HF_TOKEN={odd}" for odd in ODD]
    start = json.dumps(["vllm", "serve", *ODD, "--api-key", "sk-proj-0123456789abcdef"])
    dockerfile.write_text("\n".join(["FROM vllm/vllm-openai:v0.20.0", *body, f"CMD {start}"]))
    services = {
        f"s{number}": {"image": "vllm/vllm-openai:v0.20.0", "command": [odd], "shm_size": odd,
                       "environment": {"VLLM_X": odd}, "extends": odd}
        for number, odd in enumerate(ODD)
    }  # fmt: skip
    compose.write_text(json.dumps({"services": services}))
    return Plans((str(requirements),), (str(dockerfile),), (str(compose),))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("plans")
    found = check(Sources(host="L40S,driver=550.54", plans=_files(folder)))
    return Redactor("/home/alicia", "prod-db-7").report(found)


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_lets_it_through(form: str, report: Report) -> None:
    for style in (Style(), Style(verbose=True), Style(quiet=True)):
        text = renderer(form)(report, style)
        assert not [char for char in text if char in "\x1b\x07\x9b\u202e\u2066\u2028"]
        if form == "html":
            assert "<script>alert" not in text
            assert "<img src=x" not in text
        if form == "github":
            assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in
                       text.splitlines())  # fmt: skip
        if form in ("json", "sarif", "baseline"):
            assert json.loads(text)


@pytest.mark.parametrize("form", FORMATS)
def test_names_of_people_stay_out(form: str, report: Report) -> None:
    text = renderer(form)(report, Style(verbose=True))
    assert [trace for trace in TRACES if trace in text] == []
