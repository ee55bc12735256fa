"""From the samples of one load to its figures: percentiles, throughput, sums. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from doctor.smoke.bench.ask import Load
from doctor.smoke.bench.devices import DeviceUse
from doctor.smoke.bench.drive import Course
from doctor.smoke.bench.gauges import Gauges
from doctor.smoke.bench.own_load import OwnLoad
from doctor.smoke.bench.sample import Sample

SLICES = 10
# A window in which all users are busy must be this share of the whole, else the whole counts.
_LEAST_WINDOW = 0.5


@dataclass(frozen=True)
class Spread:
    """How a time in seconds is spread over requests."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    high: float


@dataclass(frozen=True)
class Series:
    """Single values, in the order in which requests were due, to compare with another run.

    `throughput` are tokens a second in equal slices of the window.
    """

    ttft: tuple[float, ...] = ()
    tpot: tuple[float, ...] = ()
    latency: tuple[float, ...] = ()
    throughput: tuple[float, ...] = ()


@dataclass(frozen=True)
class Level:
    """What one load came to.

    Sums are over all requests that succeeded; percentiles over those that were sent while
    all users were at work. `output_rate`, `prompt_rate` (tokens) and `request_rate` are per
    second within that `window`. `errors` counts by kind, `first_error` is what the server
    said first. `late` is by how much 99 of 100 requests left later than they were due, at
    most. `server_ttft`, `server_tpot` are medians by the server's own clock.
    """

    load: Load
    requests: int
    succeeded: int
    unfinished: int
    seconds: float
    window: tuple[float, float]
    prompt_tokens: int
    output_tokens: int
    output_rate: float
    prompt_rate: float
    request_rate: float
    ttft: Spread | None = None
    tpot: Spread | None = None
    latency: Spread | None = None
    gap: Spread | None = None
    server_ttft: float | None = None
    server_tpot: float | None = None
    errors: dict[str, int] = field(default_factory=dict)
    first_error: str = ""
    hopeless: bool = False
    late: float = 0.0
    series: Series = field(default_factory=Series)
    gauges: Gauges | None = None
    devices: DeviceUse | None = None
    own: OwnLoad | None = None

    @property
    def error_rate(self) -> float:
        """Share of requests that failed."""
        return (self.requests - self.succeeded) / self.requests if self.requests else 0.0


def quantile(ordered: Sequence[float], share: float) -> float:
    """A quantile of ordered values, linear between neighbours."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(values: Sequence[float]) -> Spread | None:
    """The spread of some values, None for none."""
    if not values:
        return None
    ordered = sorted(values)
    return Spread(
        count=len(ordered),
        mean=sum(ordered) / len(ordered),
        p50=quantile(ordered, 0.5),
        p90=quantile(ordered, 0.9),
        p95=quantile(ordered, 0.95),
        p99=quantile(ordered, 0.99),
        high=ordered[-1],
    )


def level(
    course: Course,
    gauges: Gauges | None = None,
    devices: DeviceUse | None = None,
    own: OwnLoad | None = None,
) -> Level:
    """All figures of one load."""
    good = sorted((s for s in course.samples if not s.fault), key=lambda s: s.due)
    bad = [s for s in course.samples if s.fault]
    window = _window(course, good)
    steady = [s for s in good if window[0] <= s.due <= window[1]] or good
    rates = _rates(good, window)
    series = _series(steady, good, window)
    return Level(
        load=course.load,
        requests=len(course.samples),
        succeeded=len(good),
        unfinished=course.unfinished,
        seconds=course.ended,
        window=window,
        prompt_tokens=sum(s.prompt_tokens for s in good),
        output_tokens=sum(s.tokens for s in good),
        output_rate=rates[0],
        prompt_rate=rates[1],
        request_rate=rates[2],
        ttft=spread(series.ttft),
        tpot=spread(series.tpot),
        latency=spread(series.latency),
        gap=spread([s.gap for s in steady if s.tokens > 1]),
        server_ttft=_median([s.server_ttft for s in steady]),
        server_tpot=_median([s.server_tpot for s in steady]),
        errors=dict(Counter(s.fault for s in bad).most_common()),
        first_error=bad[0].words if bad else "",
        hopeless=course.hopeless,
        late=_lateness(course.samples),
        series=series,
        gauges=gauges,
        devices=devices,
        own=own,
    )


def _lateness(samples: Sequence[Sample]) -> float:
    late = sorted(s.sent - s.due for s in samples)
    return quantile(late, 0.99) if late else 0.0


def _window(course: Course, good: Sequence[Sample]) -> tuple[float, float]:
    """From when the last user had started to when there was nothing more to send."""
    end = max((s.ended for s in good), default=course.ended)
    begin, dry = course.ramp, min(course.dry, end)
    if dry - begin < _LEAST_WINDOW * end:
        return 0.0, end
    return begin, dry


def _rates(good: Sequence[Sample], window: tuple[float, float]) -> tuple[float, float, float]:
    """Tokens given, tokens read and requests answered, each a second within the window."""
    begin, end = window
    length = max(end - begin, 1e-9)
    output = sum(tokens_within(s, begin, end) for s in good)
    prompt = sum(s.prompt_tokens for s in good if begin < s.first <= end)
    ended = sum(1 for s in good if begin < s.ended <= end)
    return output / length, prompt / length, ended / length


def tokens_within(sample: Sample, begin: float, end: float) -> float:
    """Tokens that came between two moments, as if they came evenly."""
    first = 1.0 if begin < sample.first <= end else 0.0
    length = sample.last - sample.first
    if sample.tokens <= 1:
        return first
    if length <= 0:
        return sample.tokens * first
    shared = max(0.0, min(end, sample.last) - max(begin, sample.first))
    return first + (sample.tokens - 1) * shared / length


def _series(
    steady: Sequence[Sample], good: Sequence[Sample], window: tuple[float, float]
) -> Series:
    begin, end = window
    width = (end - begin) / SLICES
    edges = [(begin + n * width, begin + (n + 1) * width) for n in range(SLICES)]
    slices = (
        [sum(tokens_within(s, a, b) for s in good) / width for a, b in edges] if width > 0 else []
    )
    return Series(
        tuple(s.ttft for s in steady),
        tuple(s.tpot for s in steady if s.tpot is not None),
        tuple(s.latency for s in steady),
        tuple(slices),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None)
    return quantile(known, 0.5) if known else None
