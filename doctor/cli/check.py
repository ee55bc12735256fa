"""`doctor check`."""

from __future__ import annotations

import sys

import click

from doctor.cli.fleet_options import FleetOptions, on_a_fleet

# The keys of doctor.report.FORMATS, which a test compares; importing them would cost every --help.
FORMATS = (
    "text",
    "json",
    "sarif",
    "junit",
    "markdown",
    "html",
    "github",
    "prometheus",
    "baseline",
)


@click.command("check")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--facts", multiple=True, metavar="FILE", help="Judge a snapshot, report or case.")
@click.option("--host", default="", metavar="LINE", help='Judge a host in words: "H100x8,...".')
@click.option("--facts-dir", default="", metavar="DIR", help="Judge a fleet: one file a host.")
@on_a_fleet
@click.option("--root", default="", metavar="DIR", help="Judge a mounted system; run nothing.")
@click.option("--python", multiple=True, metavar="PATH", help="Judge this Python environment.")
@click.option(
    "--image", default="", metavar="REF|FILE", help="Judge this image; run nothing of it."
)
@click.option(
    "--image-limit",
    type=click.FloatRange(1, 86400),
    default=1800,
    metavar="S",
    help="How long reading it may take.",
)
@click.option("--requirements", multiple=True, metavar="FILE", help="Judge what it asks for.")
@click.option("--dockerfile", multiple=True, metavar="FILE", help="Judge what it would build.")
@click.option("--compose", multiple=True, metavar="FILE", help="Judge its services.")
@click.option("--profile", default="", metavar="NAME|FILE", help="Judge what it wants.")
@click.option("--engine", default="", metavar="NAME[==VER]", help="Judge whether it could run.")
@click.option("--model", default="", metavar="NAME", help="The model that it should serve.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-o", "outputs", multiple=True, metavar="FORMAT=FILE", help="Also write this file.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    show_default=True,
    help="Exit 1 from this severity on.",
)
@click.option("--strict", is_flag=True, help="Exit 3 if any rule could not decide.")
@click.option("--allow-unknown", is_flag=True, help="Exit 0 where only facts are missing.")
@click.option("--baseline", default="", metavar="FILE", help="Fail only on what it does not hold.")
@click.option("--config", default="", metavar="FILE", help="The doctor.toml with the ignore list.")
@click.option("--no-redact", is_flag=True, help="Keep names of people and machines.")
@click.option("-q", "--quiet", is_flag=True, help="Only each target's verdict and its cause.")
@click.option("-v", "--verbose", is_flag=True, help="Also notes, sources and missing facts.")
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    facts: tuple[str, ...],
    host: str,
    facts_dir: str,
    root: str,
    python: tuple[str, ...],
    image: str,
    image_limit: float,
    requirements: tuple[str, ...],
    dockerfile: tuple[str, ...],
    compose: tuple[str, ...],
    profile: str,
    engine: str,
    model: str,
    form: str,
    outputs: tuple[str, ...],
    fail_on: str,
    strict: bool,
    allow_unknown: bool,
    baseline: str,
    config: str,
    no_redact: bool,
    fleet: FleetOptions,
    quiet: bool,
    verbose: bool,
) -> None:
    """Judge this host, or one that a file describes: one cause, its evidence, its remedy.

    A FILE is a requirements, project or lock file, a Dockerfile or a compose file: what it
    would install is judged on the host that is named.

    \b
    Examples:
      doctor check
      doctor check --python ./.venv --engine vllm
      doctor check --facts report.yaml --format json
      doctor check --host "L40Sx2,driver=580.95,python=3.12" --engine vllm==0.33.0
      doctor check --root /mnt/image -o json=report.json -o html=report.html
      doctor check --image vllm/vllm-openai:v0.33.0 --host "L40Sx2,driver=550.54"
      doctor check --requirements requirements.txt --host "H100x8,driver=550.54"
      doctor check --facts-dir snapshots/ -o html=fleet.html
      doctor check --inventory hosts.ini --limit gpu -o html=fleet.html
    """
    from datetime import date

    from doctor.checkup import check, exit_code, fleet_exit_code
    from doctor.errors import UsageError
    from doctor.examine import Plans, Sources, plans_of
    from doctor.gate import gate
    from doctor.report.output import emit, parse_outputs, terminal_style, write_all
    from doctor.report.redact import redactor

    written = parse_outputs(outputs, FORMATS)
    allowed = gate(config, baseline, date.today())
    names = None if no_redact else redactor()
    style = terminal_style(sys.stdout, verbose, quiet)
    plans = Plans(requirements, dockerfile, compose, profile) + plans_of(files)
    sources = Sources(facts, root, python, host, image, image_limit, plans)
    if facts_dir or fleet.inventory:
        if sources.are_named or (facts_dir and fleet.inventory):
            raise UsageError("a fleet stands alone", "leave --facts, --root and the like out")
        from doctor.fleets import Question, judge_folder, judge_inventory
        from doctor.report.progress import Progress

        question = Question(engine, model, allowed, names)
        with Progress(sys.stderr, style.width, "hosts") as progress:
            many = (
                judge_folder(facts_dir, question, progress)
                if facts_dir
                else judge_inventory(fleet.reach(), question, progress)
            )
        emit(write_all(many, form, written, style))
        ctx.exit(int(fleet_exit_code(many, fail_on, strict)))
    found = check(sources, engine, model)
    # Redaction comes first: ignored subjects and baselines are written as reports show them.
    report = allowed.apply(names.report(found) if names else found)
    emit(write_all(report, form, written, style))
    asked = (sources.are_named or bool(engine)) and not allow_unknown
    ctx.exit(int(exit_code(report, fail_on, strict, asked)))
