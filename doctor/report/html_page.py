"""What the HTML pages share: escaping, the shell of a page, icons, small parts.

A page is one file that loads nothing: its policy allows no request and only the style and
script that are in it, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable
from pathlib import Path

from doctor.findings import Finding, Remedy, Severity, Verdict
from doctor.report.clean import clean, clean_line

_ASSETS = Path(__file__).parent / "assets"

# Tone (a class of the style sheet) and word of each state of a rung.
STATES = {
    "ok": ("ok", "ok"),
    "error": ("error", "error"),
    "warning": ("warning", "warning"),
    "info": ("info", "note"),
    "-": ("none", "not judged"),
}
VERDICTS = {
    Verdict.PASS: ("ok", "Pass"),
    Verdict.FAIL: ("error", "Fail"),
    Verdict.CANNOT_TELL: ("warning", "Cannot tell"),
    Verdict.NOTHING_TO_JUDGE: ("none", "Nothing to judge"),
}
TONES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "info"}

# Each state has a shape of its own, so that none is told by colour alone.
_ICONS = {
    "ok": '<circle cx="12" cy="12" r="9"/><path d="m8 12.5 2.7 2.7L16 9.5"/>',
    "error": '<path d="M8.5 3h7L21 8.5v7L15.5 21h-7L3 15.5v-7z"/><path d="m9 9 6 6m0-6-6 6"/>',
    "warning": '<path d="M12 3.5 21.5 20h-19z"/><path d="M12 10v4.5m0 2.5v.1"/>',
    "info": '<rect x="3.5" y="3.5" width="17" height="17" rx="3"/><path d="M12 11v5.5m0-9v.1"/>',
    "none": '<circle cx="12" cy="12" r="9" stroke-dasharray="3 3"/><path d="M8 12h8"/>',
}


# Words of causes that are not written as other words are.
_SPELLED = {
    **{
        word.lower(): word
        for word in (
            "ABI", "BIOS", "CANN", "CC", "CPU", "CUDA", "DKMS", "GPU", "ISA", "KV", "MIG", "NCCL",
            "NPU", "P2P", "PCIe", "PTX", "RAM", "ROCm", "SoC", "WSL",
        )
    },
    "fabricmanager": "fabric manager",
    "kvcache": "KV cache",
    "libstdcxx": "libstdc++",
    "secureboot": "Secure Boot",
    "shm": "shared memory",
    "vgpu": "vGPU",
}  # fmt: skip


def esc(text: object, limit: int = 2000) -> str:
    """Text for an element or a quoted attribute; control characters become visible."""
    return html.escape(clean_line(str(text), limit))


def icon(tone: str) -> str:
    """The shape of a tone; its word stands beside it."""
    return f'<svg class="icon" aria-hidden="true"><use href="#i-{tone}"/></svg>'


def badge(verdict: Verdict) -> str:
    """A verdict as shape and word."""
    tone, word = VERDICTS[verdict]
    return f'<span class="badge {tone}">{icon(tone)}{word}</span>'


def title_of(cause: str) -> str:
    """A cause's slug as a title: "gpu-not-visible" → "GPU not visible"."""
    words = [_SPELLED.get(word, word) for word in cause.split("-")]
    title = " ".join(words)
    return esc(title if title[1:2].isupper() else title[:1].upper() + title[1:])


def page(title: str, body: str, *assets: str) -> str:
    """A whole page with its style and the named scripts and further styles inline."""
    style = "".join(_asset(n) for n in ("page.css", *assets) if n.endswith(".css"))
    script = "".join(_asset(n) for n in assets if n.endswith(".js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{_hash(style)}'; "
        f"script-src 'sha256-{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    return "\n".join((
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{esc(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        '<a class="skip" href="#main">Skip to the report</a>',
        _sprite(),
        body,
        f"<script>{script}</script>",
        "</body>",
        "</html>",
        "",
    ))  # fmt: skip


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _sprite() -> str:
    symbols = "".join(
        f'<symbol id="i-{tone}" viewBox="0 0 24 24" stroke-width="2" stroke-linecap="round"'
        f' stroke-linejoin="round">{shape}</symbol>'
        for tone, shape in _ICONS.items()
    )
    return f'<svg class="sprite" aria-hidden="true">{symbols}</svg>'


def evidence(finding: Finding) -> str:
    """What was seen, and where."""
    rows = [
        f"<li>{esc(item.fact)}"
        + (f' <span class="at">read from <code>{esc(item.at)}</code></span>' if item.at else "")
        + "</li>"
        for item in finding.evidence
    ]
    return _section("What was seen", f'<ul class="evidence">{"".join(rows)}</ul>' if rows else "")


def fixes(remedies: tuple[Remedy, ...], advice: str = "") -> str:
    """The ways out with their commands; `advice` is said where there is none."""
    numbered = len(remedies) > 1
    rows = "".join(_fix(r, n if numbered else 0) for n, r in enumerate(remedies, 1))
    if not rows:
        return _section("How to fix it", f"<p>{esc(advice)}</p>" if advice else "")
    heading = "How to fix it: any one of these" if numbered else "How to fix it"
    return _section(heading, f'<ol class="fixes">{rows}</ol>')


def _fix(remedy: Remedy, number: int) -> str:
    mark = f"<b>{number}.</b> " if number else ""
    parts = [f'<p class="act">{mark}{esc(remedy.action)}</p>']
    chips = "".join(f'<span class="chip">{chip}</span>' for chip in _chips(remedy))
    parts += [f'<p class="chips">{chips}</p>'] if chips else []
    parts += [f'<p class="risk">Mind: {esc(remedy.risk)}</p>'] if remedy.risk else []
    parts += [commands(remedy.commands)] if remedy.commands else []
    return f"<li>{''.join(parts)}</li>"


def _chips(remedy: Remedy) -> Iterable[str]:
    if remedy.reboot:
        yield "needs a reboot"
    if remedy.undo == "none":
        yield "cannot be undone"


def commands(lines: tuple[str, ...]) -> str:
    """Commands, one a line; the script adds a button that copies them."""
    rows = "".join(f'<span class="line">{_command(line)}</span>' for line in lines)
    return f'<div class="command"><pre>{rows}</pre></div>'


def _command(line: str) -> str:
    return html.escape(clean(line, 4000).replace("\n", " "))


def sources(finding: Finding) -> str:
    """The rows of the matrix that decided, folded away; addresses become links."""
    rows = "".join(f"<li>{_linked(source)}</li>" for source in finding.sources)
    if not rows:
        return ""
    listed = f'<ul class="sources">{rows}</ul>'
    return f'<details class="label"><summary>Sources</summary>{listed}</details>'


def _linked(source: str) -> str:
    address = source.split(maxsplit=1)[0] if source.startswith("https://") else ""
    if not address:
        return esc(source)
    return (
        f'<a href="{esc(address)}" rel="noreferrer">{esc(address)}</a>{esc(source[len(address) :])}'
    )


def _section(heading: str, inside: str) -> str:
    return f'<p class="label">{heading}</p>{inside}' if inside else ""
