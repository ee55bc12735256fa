"""Find what ships with doctor besides code: profiles, playbooks, images, the matrix.

In a checkout these folders lie beside the package, in an installed wheel inside it.
"""

from __future__ import annotations

from pathlib import Path

from doctor.errors import DoctorError

PACKAGE = Path(__file__).parent
# Folders of the repository's top that the wheel carries (see hatch_build.py).
FOLDERS = ("profiles", "playbooks", "images")


def resource(*parts: str) -> Path:
    """The path of a shipped file or folder, by its parts: "profiles", "h100.yaml".

    Raises DoctorError if this installation lacks it.
    """
    for base in (PACKAGE / "_resources", PACKAGE.parent):
        path = base.joinpath(*parts)
        if parts and parts[0] in FOLDERS and path.exists():
            return path
    raise DoctorError(f"{'/'.join(parts)} is not part of this installation", "reinstall llm-doctor")
