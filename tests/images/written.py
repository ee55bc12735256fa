"""Images that a test writes: a tree of files, as a layer, a saved image, or in the engine."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
from referencing import Registry, Resource

from tests.binaries.written import Library

SCHEMAS = Path(__file__).parent / "schemas"
SITE = "opt/venv/lib/python3.12/site-packages"
CANARY = "raise SystemExit('an examined file was run')\n"


@dataclass
class Layer:
    """Members of a layer in order."""

    members: list[tuple[tarfile.TarInfo, bytes]] = field(default_factory=list)

    def file(self, path: str, content: str | bytes = b"", mode: int = 0o644) -> Layer:
        """Add a regular file, in the place of one of the same name."""
        data = content.encode() if isinstance(content, str) else content
        self.members = [member for member in self.members if member[0].name != path]
        info = tarfile.TarInfo(path)
        info.size, info.mode = len(data), mode
        self.members.append((info, data))
        return self

    def special(self, path: str, kind: bytes, target: str = "") -> Layer:
        """Add a link, folder or device."""
        info = tarfile.TarInfo(path)
        info.type, info.linkname, info.mode = kind, target, 0o755
        self.members.append((info, b""))
        return self

    def link(self, path: str, target: str) -> Layer:
        """Add a symbolic link."""
        return self.special(path, tarfile.SYMTYPE, target)

    def shared_object(self, path: str, library: Library, scratch: Path) -> Layer:
        """Add a shared library."""
        return self.file(path, library.write(scratch / "library.so").read_bytes(), 0o755)

    def distribution(self, name: str, version: str, *requires: str, files: str = "") -> Layer:
        """Add an installed distribution to the virtual environment of the image."""
        info = f"{SITE}/{name.replace('-', '_')}-{version}.dist-info"
        lines = "".join(f"Requires-Dist: {line}\n" for line in requires)
        self.file(f"{info}/METADATA", f"Name: {name}\nVersion: {version}\n{lines}\n")
        self.file(f"{info}/WHEEL", "Tag: cp312-cp312-manylinux_2_28_x86_64\n")
        return self.file(f"{info}/RECORD", files)

    def tar(self) -> bytes:
        """The layer as a tar."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for info, data in self.members:
                archive.addfile(info, io.BytesIO(data))
        return out.getvalue()


def system(glibc: str = "2.36") -> Layer:
    """A Debian with a C library of that version and a Python in /opt/venv."""
    layer = Layer()
    layer.file("etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
    layer.file("lib64/ld-linux-x86-64.so.2", b"loader", 0o755)
    banner = f"GNU C Library (Debian GLIBC) stable release version {glibc}.\n"
    layer.file("lib/x86_64-linux-gnu/libc.so.6", b"\x7fELF" + banner.encode(), 0o755)
    layer.file("usr/bin/python3.12", CANARY, 0o755)
    layer.link("usr/bin/python3", "python3.12")
    layer.file("usr/lib/python3.12/os.py", CANARY)
    layer.file("usr/include/python3.12/Python.h")
    layer.file("opt/venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.7\n")
    layer.link("opt/venv/bin/python3", "/usr/bin/python3.12")
    layer.file(f"{SITE}/sitecustomize.py", CANARY)
    return layer.file(f"{SITE}/evil.pth", "import os; os.system('touch /tmp/canary')\n")


def torch(layer: Layer, version: str, cuda: str) -> Layer:
    """Add a torch with its version file; `cuda` is "" for a CPU build."""
    layer.distribution("torch", version)
    stated = f"'{cuda}'" if cuda else "None"
    text = f"__version__ = '{version}'\ncuda: Optional[str] = {stated}\nhip = None\n"
    return layer.file(f"{SITE}/torch/version.py", text)


def save(path: Path, *layers: Layer, config: dict[str, Any] | None = None, tag: str = "") -> Path:
    """Write what `docker save` would write."""
    ids = [f"sha256:{hashlib.sha256(layer.tar()).hexdigest()}" for layer in layers]
    rootfs = {"type": "layers", "diff_ids": ids}
    settings = {"architecture": "amd64", "os": "linux", "config": config or {}, "rootfs": rootfs}
    data = json.dumps(settings).encode()
    name = f"{hashlib.sha256(data).hexdigest()}.json"
    listed = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": name, "RepoTags": [tag] if tag else None, "Layers": listed}]
    outer = Layer().file(name, data)
    for place, layer in zip(listed, layers, strict=True):
        outer.file(place, layer.tar())
    outer.file("manifest.json", json.dumps(manifest))
    path.write_bytes(outer.tar())
    return path


def valid_parts(text: str) -> dict[str, Any]:
    """A list of parts, held against the schema of CycloneDX."""
    names = ("spdx.schema.json", "jsf-0.82.SNAPSHOT.schema.json")
    resources = [json.loads((SCHEMAS / name).read_text()) for name in names]
    registry: Registry[Any] = Registry().with_resources(
        (f"http://cyclonedx.org/schema/{name}", Resource.from_contents(found))
        for name, found in zip(
            ("spdx.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json"), resources, strict=True
        )
    )
    schema = json.loads((SCHEMAS / "bom-1.6.schema.json").read_text())
    found: dict[str, Any] = json.loads(text)
    jsonschema.Draft7Validator(schema, registry=registry).validate(found)
    return found
