"""`doctor resolve`."""

from __future__ import annotations

import sys

import click


@click.command("resolve")
@click.argument("engine", default="", metavar="[ENGINE[SPEC]]")
@click.option("--facts", multiple=True, metavar="FILE", help="The host of a snapshot or report.")
@click.option("--host", default="", metavar="LINE", help='A host in words: "H100x8,driver=580".')
@click.option("--root", default="", metavar="DIR", help="A mounted system.")
@click.option(
    "--goal",
    type=click.Choice(["throughput", "latency", "local", "multi-turn", "cross-platform"]),
    default=None,
    help="Choose the engine by what it is for.",
)
@click.option("--model", default="", metavar="NAME|PATH", help="The model that it should serve.")
@click.option("--quantization", default="", metavar="METHOD", help="Format of the weights.")
@click.option(
    "--artifact", type=click.Choice(["wheel", "image", "source"]), help="Only this kind of build."
)
@click.option(
    "--emit",
    type=click.Choice(["pip", "uv", "dockerfile", "profile", "compose", "k8s"]),
    help="Print the stack for a tool instead of a report.",
)
@click.option("--no-unlocks", is_flag=True, help="Do not look for changes that would allow more.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("-v", "--verbose", is_flag=True, help="Also sources, and all that was refused.")
@click.pass_context
def command(
    ctx: click.Context,
    engine: str,
    facts: tuple[str, ...],
    host: str,
    root: str,
    goal: str | None,
    model: str,
    quantization: str,
    artifact: str | None,
    emit: str | None,
    no_unlocks: bool,
    form: str,
    verbose: bool,
) -> None:
    """Name the newest stack that works on this host, or on one that you describe.

    Engine, torch, CUDA build, Python, and where to get them; why newer ones were refused,
    and the smallest change that would allow them. Exit 1 if nothing works.

    \b
    Examples:
      doctor resolve vllm
      doctor resolve "sglang>=0.5" --host "L40Sx2,driver=550.163.01,python=3.11,ubuntu=22.04"
      doctor resolve --goal latency --facts host.yaml
      doctor resolve vllm --emit uv > pyproject.toml
    """
    from doctor.examine import Sources
    from doctor.report.output import terminal_style
    from doctor.resolving import Question, render, resolve_for

    question = Question(
        engine,
        Sources(facts, root, host=host),
        goal or "",
        model,
        quantization,
        artifact or "",
        with_unlocks=not (no_unlocks or emit),
    )
    found = resolve_for(question)
    style = terminal_style(sys.stdout, verbose)
    click.echo(render(found, emit or form, style), nl=False)
    ctx.exit(0 if found.offers else 1)
