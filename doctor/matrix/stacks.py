"""How engines are delivered, and which engine suits which aim."""

from __future__ import annotations

from msgspec import Struct

from doctor.matrix.model import Row


class Delivery(Row, frozen=True, kw_only=True):
    """One way to get an engine for devices of one vendor, apart from its images.

    `kind` is wheel or source; `vendor` nvidia, amd, ascend, apple, cpu; `package` the
    distribution to install; `variant` the label of a build beside the default one ("cu118").
    `since` (inclusive) and `until` (exclusive) bound the versions. `index` serves the
    engine, `url` is the address of its file, `extra_index` is asked beside the default one;
    in them {version}, {variant} and {arch} stand for those of the build. `unseen` says why
    that build may not be there, "" where it was seen or is documented.
    """

    engine: str
    kind: str
    vendor: str
    package: str
    variant: str = ""
    since: str = ""
    until: str = ""
    archs: tuple[str, ...] = ()
    min_glibc: str = ""
    index: str = ""
    url: str = ""
    extra_index: str = ""
    unseen: str = ""


class Goal(Row, frozen=True, kw_only=True):
    """An engine that suits an aim on devices of a vendor, best first, and why."""

    goal: str
    vendor: str
    engine: str
    why: str


class StackDomain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Deliveries of engines, and engines by aim."""

    as_of: str
    deliveries: tuple[Delivery, ...] = ()
    goals: tuple[Goal, ...] = ()
