"""Build hook: compile the matrix into the wheel, and put the top-level folders in it."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface):  # type: ignore[type-arg]  # generic only for the checker
    """Adds compiled domains and resource folders to a wheel; does nothing for other builds."""

    PLUGIN_NAME = "custom"
    _scratch: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before the files of the wheel are gathered."""
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root))
        from doctor.resources import FOLDERS

        self._scratch = tempfile.TemporaryDirectory(prefix="doctor-matrix-")
        included = build_data["force_include"]
        for path in compile_matrix(root / "doctor" / "matrix" / "data", Path(self._scratch.name)):
            included[str(path)] = f"doctor/matrix/compiled/{path.name}"
        for folder in FOLDERS:
            if (root / folder).is_dir():
                included[str(root / folder)] = f"doctor/_resources/{folder}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling when the wheel is written; its arguments are not needed."""
        del version, build_data, artifact_path
        if self._scratch:
            self._scratch.cleanup()


def compile_matrix(data: Path, into: Path) -> list[Path]:
    """Compile every domain; raises MatrixError for a source that breaks its schema."""
    from doctor.matrix.cache import write_compiled
    from doctor.matrix.compile import compile_domain
    from doctor.matrix.domains import shape_of
    from doctor.matrix.load import NAMES

    compiled = []
    for source in sorted(data.glob("*.yaml")):
        target = into / f"{source.stem}.json"
        payload = compile_domain(source, shape_of(source.stem))
        write_compiled(target, payload, hashlib.sha256(source.read_bytes()).hexdigest())
        compiled.append(target)
    names = into / NAMES
    write_compiled(names, *_names(data))
    return [*compiled, names]


def _names(data: Path) -> tuple[bytes, str]:
    """Names of all engines, and the version of the matrix that they are of."""
    import msgspec

    from doctor.matrix import load_matrix

    matrix = load_matrix(data)
    return msgspec.json.encode(matrix.heads), matrix.version
