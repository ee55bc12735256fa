"""`doctor image`: pinned images of engines."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from doctor.cli.finite import Finite
from doctor.cli.once import OnceGroup

_BUILDER = click.Choice(["auto", "classic", "buildah"])


@click.group("image", cls=OnceGroup)
def command() -> None:
    """Build, pin, push and verify images. Nothing of an image is run to look at it."""


def _say(text: str) -> None:
    from doctor.report.clean import clean_line

    click.echo(clean_line(text, 300), err=True)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_images(as_json: bool) -> None:
    """List the images that doctor can build, and which of them the project builds itself."""
    from doctor.images.recipe import read_recipe, recipe_names
    from doctor.report.image import render_list, render_list_json
    from doctor.report.output import emit, terminal_style

    recipes = [read_recipe(name) for name in recipe_names()]
    style = terminal_style(sys.stdout)
    emit(render_list_json(recipes) if as_json else render_list(recipes, style))


@command.command("pin")
@click.argument("names", nargs=-1, required=True, metavar="NAME|REF...")
@click.option("-o", "--output", default="images.lock", show_default=True, metavar="FILE")
@click.option("--arch", default="", metavar="ARCH", help="Not this machine's: x86_64 or aarch64.")
@click.pass_context
def pin(ctx: click.Context, names: tuple[str, ...], output: str, arch: str) -> None:
    """Write down which digest the tag of a base leads to today; commit the file.

    Exit 1 if a tag that the file holds already was published again.

    \b
    Examples:
      doctor image pin vllm llamacpp-cpu
      doctor image pin ghcr.io/ggml-org/llama.cpp:server-cuda
    """
    from doctor.errors import ExitCode
    from doctor.images.pins import pin as pin_all
    from doctor.images.recipe import reference_of
    from doctor.report.image import render_pins
    from doctor.report.output import emit

    pins = pin_all(tuple(map(reference_of, names)), output, arch)
    emit(render_pins(pins, output))
    ctx.exit(int(ExitCode.NO if any(item.is_moved for item in pins) else ExitCode.OK))


@command.command("build")
@click.argument("name")
@click.option("--profile", default="", metavar="P", help="Packages of this profile.")
@click.option("--lock", default="", metavar="FILE", help="Packages of this stack.lock.")
@click.option("--builder", type=_BUILDER, default="auto", show_default=True)
@click.option("--base", default="", metavar="REF@DIGEST", help="Not the recipe's base but this.")
@click.option("--pins", default="", metavar="FILE", help="The images.lock with the base's digest.")
@click.option("--tag", default="", metavar="NAME:TAG", help="What the image is called.")
@click.option("--source", default="", metavar="URL", help="For its label: where it comes from.")
def build(
    name: str,
    profile: str,
    lock: str,
    builder: str,
    base: str,
    pins: str,
    tag: str,
    source: str,
) -> None:
    """Build an image from its recipe, on a base by digest, with packages by hash.

    Packages are fetched first, by your own index and certificates; the build has no network.
    buildah gives the same bytes for the same lock and base.

    \b
    Examples:
      doctor image build llamacpp-cpu --pins images.lock
      doctor image build vllm --base vllm/vllm-openai@sha256:... --builder buildah
    """
    from doctor.images.building import Wish
    from doctor.images.building import build as build_image
    from doctor.matrix import load_matrix
    from doctor.report.image import render_built
    from doctor.report.output import emit

    wish = Wish(name, profile, builder, base, pins, tag, source, lock)
    emit(render_built(build_image(wish, load_matrix(), _say)))


@command.command("push")
@click.argument("reference", metavar="IMAGE")
@click.argument("target", metavar="REGISTRY/NAME:TAG")
@click.option("--builder", type=_BUILDER, default="auto", show_default=True)
def push(reference: str, target: str, builder: str) -> None:
    """Send an image to a registry, with the login that docker or buildah has; print its digest.

    \b
    Examples:
      doctor image push llm-doctor/llamacpp-cpu:2026.10.11549 registry.example/llama:1
    """
    from doctor.images.pushing import push as push_image
    from doctor.report.output import emit

    emit(f"{push_image(reference, target, builder, _say).image}\n")


@command.command("sbom")
@click.argument("reference", metavar="IMAGE|FILE")
@click.option("-o", "--output", default="", metavar="FILE", help="Not to standard output.")
@click.option("--image-limit", type=Finite(1, 86400), default=1800, metavar="S",
              help="How long reading it may take.")  # fmt: skip
def sbom(reference: str, output: str, image_limit: float) -> None:
    """List the parts of an image, Python's and the system's, as CycloneDX JSON.

    \b
    Examples:
      doctor image sbom vllm/vllm-openai:v0.33.0 -o vllm.cdx.json
    """
    from doctor.images.parts import read_parts
    from doctor.images.reading import read_image
    from doctor.images.sbom import render
    from doctor.report.output import emit, write_whole
    from doctor.report.progress import ByteProgress

    with ByteProgress(sys.stderr) as shown, read_image(reference, shown, image_limit) as opened:
        parts = read_parts(opened)
        text = render(opened.config, parts)
    for words in parts.unread:
        _say(f"the list is not whole: {words}")
    if output:
        write_whole(Path(output), text)
    else:
        emit(text)


@command.command("verify")
@click.argument("reference", metavar="IMAGE|FILE")
@click.option("--digest", default="", metavar="sha256:...", help="It must be this one.")
@click.option("--sbom", "parts", default="", metavar="FILE", help="It must hold just these parts.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--image-limit", type=Finite(1, 86400), default=1800, metavar="S",
              help="How long reading it may take.")  # fmt: skip
@click.pass_context
def verify(
    ctx: click.Context,
    reference: str,
    digest: str,
    parts: str,
    as_json: bool,
    image_limit: float,
) -> None:
    """Hold an image against its labels, lock, list of parts and advisories; look for secrets.

    Exit 1 if a point fails.

    \b
    Examples:
      doctor image verify llm-doctor/llamacpp-cpu:2026.10.11549
      doctor image verify registry.example/llama@sha256:... --sbom llama.cdx.json
    """
    from doctor.errors import ExitCode
    from doctor.images.verify import Expectation
    from doctor.images.verify import verify as verify_image
    from doctor.matrix import load_matrix
    from doctor.report.image import render_verified, render_verified_json
    from doctor.report.output import emit, terminal_style
    from doctor.report.progress import ByteProgress

    expected = Expectation(digest, parts, image_limit)
    with ByteProgress(sys.stderr) as progress:
        found = verify_image(reference, expected, load_matrix(), progress)
    style = terminal_style(sys.stdout)
    emit(render_verified_json(found) if as_json else render_verified(found, style))
    ctx.exit(int(ExitCode.OK if found.passed else ExitCode.NO))
