"""Build the documentation site: the pages of docs/, one for each cause, one for each engine.

python scripts/make_site.py FOLDER [--pages-only]

Pages of causes come from the rules, tables of engines from the matrix; nothing is kept beside
them. MkDocs builds them strictly: a link that leads nowhere fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from doctor.explain import page_of, symptoms
from doctor.facts import Version
from doctor.matrix import load_matrix
from doctor.matrix.model import Release
from doctor.matrix.query import Matrix
from doctor.rules.registry import RULES

ROOT = Path(__file__).parent.parent
_MOST = 60
_COLUMNS = ("version", "released", "Python", "CUDA", "lowest driver", "lowest capability", "torch",
            "builds")  # fmt: skip
_CODE = re.compile(r"`(docs/[\w./-]+\.md)`")
CONFIG = """\
site_name: doctor
site_description: Judges, provisions and proves hosts for LLM inference
docs_dir: pages
site_dir: html
use_directory_urls: false
theme:
  name: mkdocs
  color_mode: auto
  user_color_mode_toggle: true
  highlightjs: false
plugins: [search]
markdown_extensions: [tables, toc, fenced_code]
validation:
  omitted_files: ignore
  not_found: warn
  anchors: warn
  unrecognized_links: warn
  absolute_links: warn
nav:
"""
# Pages of docs/ in the order of reading; the others follow.
FIRST = ("facts", "reports", "ci", "fleets", "resolve", "profiles", "provisioning", "images",
         "smoke", "bench", "matrix", "support", "accuracy", "security", "architecture",
         "adding")  # fmt: skip


def main(folder: Path, pages_only: bool) -> int:
    """Write the pages and the configuration, then build."""
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    matrix = load_matrix()
    nav = [*write_prose(pages), *write_causes(pages, matrix), *write_engines(pages, matrix)]
    (folder / "mkdocs.yml").write_text(CONFIG + "".join(f"{line}\n" for line in nav))
    if pages_only:
        return 0
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(command, cwd=folder, check=False).returncode


def write_prose(pages: Path) -> Iterator[str]:
    """README and docs/ as they are; a path of a page in prose becomes a link to it."""
    docs = {path.stem: path for path in (ROOT / "docs").glob("*.md")}
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    readme = (ROOT / "README.md").read_text()
    (pages / "index.md").write_text(_linked(readme).replace("(README.zh.md)", "(zh.md)"))
    chinese = (ROOT / "README.zh.md").read_text()
    (pages / "zh.md").write_text(_linked(chinese).replace("(README.md)", "(index.md)"))
    yield "  - doctor: index.md"
    yield "  - 中文: zh.md"
    yield "  - Guide:"
    for name in (*(n for n in FIRST if n in docs), *sorted(set(docs) - set(FIRST))):
        (pages / f"{name}.md").write_text(_linked(docs[name].read_text()))
        yield f"      - {_quoted(_title(docs[name]))}: {name}.md"
    yield "  - Decisions:"
    (pages / "decisions").mkdir()
    for path in decisions:
        shutil.copy(path, pages / "decisions" / path.name)
        yield f"      - {_quoted(_title(path))}: decisions/{path.name}"


def _title(path: Path) -> str:
    return path.read_text().lstrip().splitlines()[0].lstrip("# ").strip().replace("`", "")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'


def _linked(text: str) -> str:
    """`docs/reports.md` in prose as a link, where the page is one; not inside fenced blocks."""
    parts = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _CODE.sub(_link, part) for part in parts)


def _link(match: re.Match[str]) -> str:
    name = match[1].removeprefix("docs/")
    return f"[{match[1]}]({name})" if (ROOT / match[1]).is_file() else match[0]


def write_causes(pages: Path, matrix: Matrix) -> Iterator[str]:
    """A page a cause: what it is, what it brings along, its rules."""
    folder = pages / "causes"
    folder.mkdir()
    rows = ["# Causes", "", "| cause | rung | what it means |", "|---|---|---|"]
    yield "  - Causes:"
    yield "      - All causes: causes/index.md"
    for name, row in matrix.causes.items():
        (folder / f"{name}.md").write_text("\n".join(_cause(name, matrix)) + "\n")
        rows.append(f"| [{name}]({name}.md) | {_rung(row.rung)} | {_cell(row.text)} |")
        yield f"      - {name}: causes/{name}.md"
    (folder / "index.md").write_text("\n".join(rows) + "\n")


def _cause(name: str, matrix: Matrix) -> Iterator[str]:
    row = matrix.causes[name]
    yield from (f"# {name}", "", row.text, "", f"- Mended at: {_rung(row.rung)}")
    brings = symptoms(name, matrix)
    for words, names in (("Look first", row.after), ("Brings along", brings)):
        if names:
            yield f"- {words}: {', '.join(f'[{n}]({n}.md)' for n in names)}"
    for rule in (rule for rule in RULES if rule.cause == name):
        page = page_of(rule)
        yield from ("", f"## {rule.code}: {page.summary}", "", f"Severity: {rule.severity.value}.")
        for heading, text in page.sections.items():
            yield from ("", f"**{heading}.** {_plain(text)}")


def _rung(name: str | None) -> str:
    """Causes without a rung are no fault of the environment."""
    return "none" if name in (None, "null") else str(name)


def _plain(text: str) -> str:
    """Text in which nothing is markup but `code`."""
    return "".join(
        part if index % 2 else re.sub(r"([\\*_\[\]<>#])", r"\\\1", part)
        for index, part in enumerate(re.split(r"(`[^`]*`)", text))
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;") or " "


def write_engines(pages: Path, matrix: Matrix) -> Iterator[str]:
    """A table an engine or framework: what each release needs."""
    folder = pages / "engines"
    folder.mkdir()
    yield "  - Engines:"
    for head in sorted(matrix.heads, key=lambda head: head.name):
        releases = matrix.releases(head.name)
        if not releases:
            continue
        file = f"{re.sub(r'[^a-z0-9.-]', '-', head.name.lower())}.md"
        (folder / file).write_text("\n".join(_engine(head.name, releases, matrix)) + "\n")
        yield f"      - {head.name}: engines/{file}"


def _engine(name: str, releases: tuple[Release, ...], matrix: Matrix) -> Iterator[str]:
    yield from (f"# {name}", "", f"As of {matrix.as_of}; newest first. Empty: not known.", "")
    yield f"| {' | '.join(_COLUMNS)} |"
    yield f"|{'---|' * len(_COLUMNS)}"
    final = [row for row in releases if not row.prerelease and not row.yanked]
    for row in final[:_MOST]:
        yield f"| {' | '.join(_cell(text) for text in _cells(row, matrix))} |"
    if len(final) > _MOST:
        yield from (
            "",
            f"{len(final) - _MOST} older releases: `doctor matrix query {name} VERSION`.",
        )
    sources = dict.fromkeys(source for row in final[:_MOST] for source in row.source)
    yield from ("", "## Sources", "")
    yield from (f"- {_plain(source)}" for source in list(sources)[:40])


def _cells(row: Release, matrix: Matrix) -> Iterable[str]:
    cuda = Version.maybe(row.cuda)
    family = matrix.family(cuda) if cuda is not None else None
    return (
        row.version,
        row.released,
        row.requires_python or ", ".join(row.pythons),
        row.cuda or "",
        family.min_driver if family else "",
        row.min_capability or "",
        row.pins.get("torch", ""),
        ", ".join(dict.fromkeys(variant.name for variant in row.variants if variant.name))[:80],
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "--pages-only" in sys.argv[2:]))
