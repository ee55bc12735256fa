"""A list of parts as CycloneDX JSON: the same image gives the same bytes.

Source: CycloneDX 1.6 JSON schema; package-url specification.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import doctor
from doctor.errors import UsageError
from doctor.images.config import ImageConfig
from doctor.images.parts import Part, Parts
from doctor.named_files import read_named

_VERSION = "1.6"
_LIMIT = 64 << 20
_SPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # RFC 9562, names that are URLs


def render(config: ImageConfig, parts: Parts, kind: str = "container") -> str:
    """The document; what could not be read makes its composition incomplete."""
    digest = (config.digest or config.id).partition(":")[2]
    subject: dict[str, Any] = {"type": kind, "bom-ref": "image", "name": config.ref}
    if digest:
        subject["hashes"] = [{"alg": "SHA-256", "content": digest}]
    components = [_component(part) for part in parts.parts]
    serial = uuid.uuid5(_SPACE, f"{digest}\0{json.dumps(components)}")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": _VERSION,
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "tools": {"components": [
                {"type": "application", "name": "llm-doctor", "version": doctor.__version__}
            ]},
            "component": subject,
            "properties": [
                {"name": "llm-doctor:not-read", "value": words} for words in parts.unread
            ],
        },
        "components": components,
        "compositions": [
            {"aggregate": "incomplete" if parts.unread else "complete", "assemblies": ["image"]}
        ],
    }  # fmt: skip
    return json.dumps(document, indent=1) + "\n"


def read_purls(path: str) -> frozenset[str]:
    """Package URLs of a CycloneDX document; raises UsageError for anything else."""
    try:
        data = json.loads(read_named(path, _LIMIT))
    except (OSError, ValueError, RecursionError) as fault:
        raise UsageError(f"{path}: {fault}", "make it: doctor image sbom REF -o FILE") from None
    if not isinstance(data, dict) or data.get("bomFormat") != "CycloneDX":
        raise UsageError(f"{path} is no CycloneDX document", "make it: doctor image sbom REF")
    rows = data.get("components")
    listed = rows if isinstance(rows, list) else []
    return frozenset(str(row.get("purl")) for row in listed if isinstance(row, dict))


def _component(part: Part) -> dict[str, Any]:
    # As the package has it: rarely an expression of SPDX, so it is no more than a name.
    licenses = {"licenses": [{"license": {"name": part.license}}]} if part.license else {}
    return {
        "type": "library",
        "bom-ref": f"{part.purl}#{part.place}",
        "name": part.name,
        "version": part.version,
        "purl": part.purl,
        **licenses,
        "properties": [{"name": "llm-doctor:place", "value": part.place}],
    }
