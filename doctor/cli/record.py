"""`doctor record`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("record")
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option("--root", default="", metavar="DIR", help="Record a mounted system.")
@click.option("--python", multiple=True, metavar="PATH", help="Also this Python environment.")
def command(folder: str, root: str, python: tuple[str, ...]) -> None:
    """Write this host down in a new folder: what `check` reads, and the facts.

    Names of people and hosts, serial numbers, addresses and tokens are replaced; files
    are cut down to what is read of them. Look through it before you pass it on.

    \b
    Examples:
      doctor record ./report
      doctor check --facts ./report/facts.json
    """
    from doctor.examine import Sources, host_of, named_scopes
    from doctor.probes.collect import Options
    from doctor.probes.recording import record
    from doctor.report.clean import clean_line
    from doctor.report.output import emit

    sources = Sources(root=root, pythons=python)
    record(
        host_of(sources),
        folder,
        Options(pythons=python),
        lambda facts: named_scopes(sources, facts),
    )
    place = clean_line(folder, 4096)
    emit(f"{place} holds the recorded host; its facts are in {Path(place, 'facts.json')}\n")
