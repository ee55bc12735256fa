"""What a smoke test came to: data for reports, no wording of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from doctor.errors import ExitCode
from doctor.smoke.cause import LogCause
from doctor.smoke.steps import FAULTS, Step
from doctor.smoke.target import Record


class SmokeVerdict(str, Enum):
    """PROVEN: every step that matters passed. NOT_LAUNCHED: the server never became ready."""

    PROVEN = "proven"
    NOT_PROVEN = "not-proven"
    NOT_LAUNCHED = "not-launched"


EXIT_CODES = {
    SmokeVerdict.PROVEN: ExitCode.OK,
    SmokeVerdict.NOT_PROVEN: ExitCode.NO,
    SmokeVerdict.NOT_LAUNCHED: ExitCode.FAILED,
}


@dataclass(frozen=True)
class SmokeOutcome:
    """One smoke test. `command` is what was started, empty for a server that was running.

    `proves` and `leaves_open` say how far the answer reaches. `log_path` is where the
    server's log was kept, `log_cause` what it says if the server died or was slow.
    """

    verdict: SmokeVerdict
    steps: tuple[Step, ...]
    url: str
    engine: str = ""
    version: str = ""
    model: str = ""
    command: tuple[str, ...] = ()
    proves: tuple[str, ...] = ()
    leaves_open: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    fault: Step | None = None
    log_cause: LogCause | None = None
    log_path: str = ""
    stopped: str = ""
    seconds: float = 0.0
    record: Record | None = None

    @property
    def meaning(self) -> str:
        """What the fault means and where to look."""
        return FAULTS.get(self.fault.fault, "") if self.fault else ""
