"""`doctor profile`: what is wanted on a machine."""

from __future__ import annotations

import sys

import click

from doctor.cli.once import OnceGroup
from doctor.cli.records import only_with


@click.group("profile", cls=OnceGroup)
def command() -> None:
    """Look at profiles: one engine, what it runs on, how it is installed, served and proven."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_profiles(as_json: bool) -> None:
    """List the profiles that ship with doctor."""
    from doctor.profile.read import builtin_names, find_profile
    from doctor.report.output import terminal_style
    from doctor.report.profile import render_list, render_list_json

    profiles = tuple(find_profile(name) for name in builtin_names())
    style = terminal_style(sys.stdout)
    click.echo(render_list_json(profiles) if as_json else render_list(profiles, style), nl=False)


@command.command("show")
@click.argument("name", metavar="NAME|FILE")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--emit", type=click.Choice(["compose", "k8s"]), help="What an orchestrator runs.")
@click.option("--lock", default="", metavar="FILE", help="The stack.lock with its image's digest.")
@click.option("--image", default="", metavar="REF", help="With --emit: one that doctor built.")
@only_with("emit", "lock", "image")
def show(name: str, as_json: bool, emit: str | None, lock: str, image: str) -> None:
    """Print a profile in full, with the keys that it leaves at their defaults.

    \b
    Examples:
      doctor profile show llamacpp-cpu
      doctor profile show ./mine.yaml --json
      doctor profile show ./mine.yaml --lock stack.lock --emit compose > compose.yaml
    """
    from doctor.profile.read import find_profile
    from doctor.report.profile import render_json, render_yaml

    profile = find_profile(name)
    if emit:
        from doctor.report.emit_services import of_profile

        click.echo(of_profile(profile, lock, emit, image), nl=False)
        return
    click.echo(render_json(profile) if as_json else render_yaml(profile), nl=False)


@command.command("validate")
@click.argument("names", nargs=-1, required=True, metavar="NAME|FILE...")
@click.pass_context
def validate(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Check profiles against the schema, and against what the matrix knows.

    Exit 2 for a profile that breaks the schema, 1 for one that the matrix speaks against.

    \b
    Examples:
      doctor profile validate ./mine.yaml
    """
    from doctor.errors import ExitCode
    from doctor.matrix import load_matrix
    from doctor.profile.describe import doubts
    from doctor.profile.read import find_profile
    from doctor.report.profile import render_doubts

    matrix = load_matrix()
    found = {name: doubts(find_profile(name), matrix) for name in names}
    click.echo(render_doubts(found), nl=False)
    ctx.exit(int(ExitCode.NO if any(found.values()) else ExitCode.OK))


@command.command("lock")
@click.argument("name", metavar="NAME|FILE")
@click.option("-o", "--output", default="stack.lock", show_default=True, metavar="FILE")
@click.option("--python", default="", metavar="3.X", help="Not the profile's Python.")
@click.option("--platform", default="", metavar="P", help="Such as x86_64-manylinux_2_28.")
@click.option("--download", default="", metavar="DIR", help="Also fetch every file into DIR.")
def lock(name: str, output: str, python: str, platform: str, download: str) -> None:
    """Write down what a profile is today: packages and models by sha256, an image by digest.

    Packages are resolved against your own index, tags and revisions by their registry and
    hub. The file names no index, path or secret: commit it. Arguments are checked against
    what that version of the engine takes.

    \b
    Examples:
      doctor profile lock llamacpp-cpu
      doctor profile lock vllm-nvidia-container
      doctor profile lock vllm-nvidia --python 3.12 --download ./wheels
      doctor apply vllm-nvidia --lock stack.lock --offline ./wheels
    """
    from doctor.matrix import load_matrix
    from doctor.profile.read import find_profile
    from doctor.provision.locks import Wish, lock_to_file
    from doctor.report.lock import render_text

    wish = Wish(find_profile(name), python, platform, output, download)
    click.echo(render_text(lock_to_file(wish, load_matrix())), nl=False)
