"""`doctor bench`."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from doctor.cli.finite import Finite

if TYPE_CHECKING:
    from doctor.smoke.bench.asked import Options
    from doctor.smoke.bench.outcome import BenchOutcome

FORMATS = ("text", "json", "markdown", "html")


@click.command("bench")
@click.argument("url")
@click.option("--model", default="", metavar="M", help="A model of several that are served.")
@click.option("--api-key", default="", metavar="REF", help="env:NAME or file:PATH, never the key.")
@click.option("--concurrency", "users", default="", metavar="N,N", help="So many requests at once.")
@click.option(
    "--rate", "rates", default="", metavar="R,R", help="So many requests a second, by chance."
)
@click.option("--lengths", default="chat", metavar="L", help="chat, code, 512x128, or a file.")
@click.option(
    "--max-prompt", "prompt", type=click.IntRange(1, 1 << 20), default=1 << 20, metavar="TOKENS"
)
@click.option(
    "--max-output", "output", type=click.IntRange(1, 1 << 16), default=1 << 16, metavar="TOKENS"
)
@click.option("--requests", type=click.IntRange(1, 100_000), metavar="N", help="For each load.")
@click.option(
    "--duration",
    "seconds",
    type=Finite(0.1, 3600),
    default=20.0,
    metavar="S",
    show_default=True,
    help="Seconds in which each load sends.",
)
@click.option(
    "--max-time",
    "total_s",
    type=Finite(1, 86_400),
    default=180.0,
    metavar="S",
    show_default=True,
    help="Seconds for everything.",
)
@click.option(
    "--timeout",
    "request_s",
    type=Finite(0.1, 3600),
    default=60.0,
    metavar="S",
    show_default=True,
    help="Patience with one request.",
)
@click.option(
    "--warm-up",
    type=click.IntRange(0, 1000),
    default=2,
    metavar="N",
    show_default=True,
    help="Requests before anything counts.",
)
@click.option("--seed", type=click.IntRange(0, 1 << 31), default=1, metavar="N")
@click.option("--chat/--completions", "chat", default=None, help="Which interface; else by trial.")
@click.option(
    "--ttft-limit",
    "ttft_limit_s",
    type=Finite(0.001, 3600),
    metavar="S",
    help="Fail if more than 1 of 100 first tokens comes later.",
)
@click.option("--baseline", multiple=True, metavar="FILE", help="JSON of an earlier run.")
@click.option(
    "--tolerance",
    type=Finite(0, 100),
    default=10.0,
    metavar="%",
    show_default=True,
    help="Smaller changes than this are none.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-o", "outputs", multiple=True, metavar="FORMAT=FILE", help="Also write this file.")
@click.option("-v", "--verbose", is_flag=True, help="All columns, and sources of the targets.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    url: str,
    baseline: tuple[str, ...],
    tolerance: float,
    form: str,
    outputs: tuple[str, ...],
    verbose: bool,
    **asked: Any,
) -> None:
    """Load a server that runs at URL, and measure how it answers.

    Without --concurrency and --rate the load is doubled until more of it brings no more:
    the knee. Lengths of prompts and answers are those of a real service. Tokens are counted
    by the server (usage). Ctrl-C prints what there is.

    \b
    Examples:
      doctor bench http://127.0.0.1:8000
      doctor bench http://127.0.0.1:8000 --rate 2,4 --ttft-limit 1.5
      doctor bench http://127.0.0.1:8000 --concurrency 16 -o json=now.json -o html=now.html
      doctor bench http://127.0.0.1:8000 --concurrency 16 --baseline before.json

    Exit codes: 0 measured, 1 worse than the baseline or a target missed, 2 usage,
    4 nothing could be measured, 130 interrupted.
    """
    from doctor.report import Style
    from doctor.report.bench import renderer
    from doctor.report.output import emit, parse_outputs, terminal_style, write_whole
    from doctor.smoke.bench.ask import Limits
    from doctor.smoke.bench.asked import Options
    from doctor.smoke.bench.outcome import EXIT_CODES

    files = parse_outputs(outputs, FORMATS)
    asked["requests"] = asked["requests"] or 0
    limits = Limits(**{field.name: asked.pop(field.name) for field in fields(Limits)})
    outcome = _measured(Options(url, limits=limits, **asked), baseline, tolerance)
    # First what cannot fail on a wrong path: a measurement is not to be lost.
    emit(renderer(form)(outcome, terminal_style(sys.stdout, verbose)))
    for name, path in files:
        write_whole(path, renderer(name)(outcome, Style(verbose=verbose)))
    ctx.exit(int(EXIT_CODES[outcome.verdict]))


def _measured(options: Options, baseline: tuple[str, ...], tolerance: float) -> BenchOutcome:
    """Load the server, with progress, and compare with what was measured before."""
    from doctor.matrix import load_matrix
    from doctor.report.bench_progress import BenchProgress
    from doctor.smoke.bench.asked import read_ask
    from doctor.smoke.bench.baseline import read_baseline
    from doctor.smoke.bench.run import against, bench, expect_comparable

    matrix = load_matrix()
    ask, saved = read_ask(options, matrix), [read_baseline(Path(file)) for file in baseline]
    expect_comparable(ask, saved)
    progress = BenchProgress(sys.stderr)
    try:
        outcome = bench(ask, matrix, progress)
    finally:
        progress.close()
    return against(outcome, saved, tolerance / 100) if saved else outcome
