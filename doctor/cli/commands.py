"""The table of commands."""

from __future__ import annotations

# Name → module with a `command`. Listed in the order in which people need them.
COMMANDS: dict[str, str] = {
    "check": "doctor.cli.check",
    "record": "doctor.cli.record",
    "explain": "doctor.cli.explain",
    "diagnose": "doctor.cli.diagnose",
    "scan": "doctor.cli.scan",
    "fit": "doctor.cli.fit",
    "resolve": "doctor.cli.resolve",
    "matrix": "doctor.cli.matrix",
    "profile": "doctor.cli.profile",
    "plan": "doctor.cli.plan",
    "apply": "doctor.cli.apply",
    "rollback": "doctor.cli.rollback",
    "fleet": "doctor.cli.fleet",
    "drift": "doctor.cli.drift",
    "image": "doctor.cli.image",
    "smoke": "doctor.cli.smoke",
    "bench": "doctor.cli.bench",
    "completion": "doctor.cli.completion",
}
