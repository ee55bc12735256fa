"""The forward-compatibility libcuda of which a report tells."""

from __future__ import annotations

import re

from doctor.facts import UNSTATED, DriverLibrary, Reading, seen
from doctor.intake.report_packages import SortedPackages
from doctor.intake.stated import Stated
from doctor.probes.stated_version import version

_CUDA_OF_COMPAT = re.compile(r"cuda(?:-compat)?[-:](\d{1,2})[-.](\d{1,2})")
_COMPAT_FIRST = re.compile(
    r"(?:\bcompat(?:ibility)?\b|/compat\b|\bcuda-compat\S*)[^;\n]{0,60}\b(?:override|shadow|precede|"
    r"(?:is|are|comes?|come) (?:found |loaded |used )?(?:first|before|instead))",
    re.I,
)
_COMPAT_FILE = re.compile(r"(/\S{0,80}/compat)/(?:lib)?\S{0,20}libcuda\.so", re.I)
_NO_COMPAT = re.compile(r"\b(?:no|not|without|removed?|deleted?|missing)\b", re.I)
_FIRST_BRANCH = 100  # of drivers; CUDA is far from that


def compat_library(report: Stated, packages: SortedPackages) -> Reading[tuple[DriverLibrary, ...]]:
    """A forward-compatibility libcuda, where a package, LD_LIBRARY_PATH or a note names one.

    Its package or folder tells for which CUDA it is: cuda-compat-12-4, cuda-12.4/compat.
    """
    path = report.table("env").text("LD_LIBRARY_PATH")
    folder = next((part for part in path.split(":") if re.search(r"/compat(?:/|$)", part)), "")
    notes = report.strings("notes")
    told = (_COMPAT_FILE.search(note) for note in notes if not _NO_COMPAT.search(note))
    file = next(filter(None, told), None)
    comes_first = file is not None or any(map(_COMPAT_FIRST.search, notes))
    at = "env.LD_LIBRARY_PATH" if folder else "notes" if comes_first else "packages"
    folder = folder or (file[1] if file else "")
    if not folder and not packages.compat and not comes_first:
        return UNSTATED
    box = report.table("container")
    texts = (packages.compat, folder, f"{box.text('image')} {box.text('text')}")
    named = next(filter(None, map(_CUDA_OF_COMPAT.search, texts)), None)
    own = packages.stack.get("compat")
    # "cuda-compat 12.9" names the CUDA, "cuda-compat 575.57" the driver of which it is a part.
    is_cuda = own is not None and (own.major or 0) < _FIRST_BRANCH
    stated = version(f"{named[1]}.{named[2]}") if named else None
    library = DriverLibrary(
        path=f"{folder or packages.compat or 'compat'}/libcuda.so.1",
        version=None if is_cuda else own,
        compat=True,
        cuda=stated or (own if is_cuda else None),
        searched=0,
    )
    return seen((library,), at, partial=True)
