"""Huawei Ascend: for which chips a library, or a tree of kernel files, carries code.

The Ascend C compiler links device code into sections named after the chip
(`.ascend.kernel.ascend910b1.name`); operator packages keep it in files under
`op_impl/ai_core/tbe/kernel/ascend910b/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from doctor.binaries.elf import Elf

_SECTION = re.compile(r"\.ascend\.kernel\.(ascend[0-9a-z_]+)")
_FOLDER = re.compile(r"/tbe/kernel/(ascend[0-9a-z_]+)/")


def socs(file: Elf) -> tuple[str, ...]:
    """Chip names of the kernel sections ("ascend910b1"), sorted."""
    return _found(_SECTION, (section.name for section in file.sections))


def socs_of_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """Chip names of the kernel folders among `paths` ("ascend910b"), sorted."""
    return _found(_FOLDER, paths)


def _found(pattern: re.Pattern[str], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({match[1] for name in names for match in [pattern.search(name)] if match}))
