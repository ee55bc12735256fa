"""NVML asked through pynvml, in a child with a deadline."""

from __future__ import annotations

from doctor.facts import Reading
from doctor.probes import forked

AT = "NVML"


def query(timeout_s: float) -> Reading[forked.Document]:
    """All that NVML answers, in the form of `probes.nvml_questions`; never blocks longer.

    `not-readable` also if pynvml is not installed. A refusal by NVML is an answer: its
    `init` is not 0.
    """
    return forked.query(_ask, timeout_s, AT)


def _ask() -> forked.Document:
    try:
        import pynvml
    except ImportError:
        return {forked.UNASKED: "the Python module pynvml is not installed"}
    from doctor.probes.nvml_questions import ask_all

    return ask_all(pynvml)
