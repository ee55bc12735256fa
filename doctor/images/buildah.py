"""buildah: builds without a daemon, and the same bytes each time.

Images are written in Docker's format, for OCI's has no health check. Every file and the
configuration get one fixed time.
Source: buildah-build(1), --timestamp and --format.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from doctor.errors import RemoteError, UsageError
from doctor.images.context import TIME_S

if TYPE_CHECKING:
    from doctor.images.building import Order, Say

_LAST_WORDS = 1500
_LOOPBACK = ("127.", "localhost", "[::1]")


def build(order: Order, say: Say) -> str:
    """Build and tag in buildah's own store; the image's id. Raises RemoteError."""
    with tempfile.TemporaryDirectory(prefix="doctor-iid-") as folder:
        written = Path(folder, "iid")
        options = ["--format", "docker", "--timestamp", str(TIME_S), *_isolation()]
        options += ["--no-cache", "--iidfile", str(written)]
        options += ["--build-arg", f"BASE={order.base}"]
        labels = [f"--label={name}={value}" for name, value in order.labels.items()]
        place = [*_plain_http(order.base), "-f", f"{order.context}/Containerfile"]
        _run(["build", *options, *labels, *place, str(order.context)], say)
        return _settled(written.read_text().strip(), order.tag, Path(folder, "image"), say)


def _settled(identity: str, tag: str, folder: Path, say: Say) -> str:
    """The same image without the names of the containers that it was built in; its new id.

    buildah writes them into the configuration in Docker's format, and they differ each time.
    """
    _run(["push", "--format", "v2s2", identity, f"dir:{folder}"], say)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    old = folder / manifest["config"]["digest"].partition(":")[2]
    config = json.loads(old.read_bytes())
    config.pop("container", None)
    for part in ("config", "container_config"):
        config.get(part, {})["Hostname"] = ""
    data = json.dumps(config, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(data).hexdigest()
    (folder / digest).write_bytes(data)
    manifest["config"] |= {"digest": f"sha256:{digest}", "size": len(data)}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    _run(["pull", "--quiet", f"dir:{folder}"], say)
    _run(["tag", digest, tag], say)
    if digest != identity.partition(":")[2]:
        _run(["rmi", identity], say)
    return f"sha256:{digest}"


def push(reference: str, target: str, say: Say) -> str:
    """Send an image of buildah's store to a registry; its digest there. Raises RemoteError."""
    with tempfile.TemporaryDirectory(prefix="doctor-digest-") as folder:
        written = Path(folder, "digest")
        where = [*_plain_http(target), "--digestfile", str(written), "--format", "v2s2"]
        _run(["push", *where, reference, f"docker://{target}"], say)
        return written.read_text().strip()


def holds(reference: str) -> bool:
    """Tell whether buildah's store has an image of that name."""
    if shutil.which("buildah") is None:
        return False
    command = ["buildah", "inspect", "--type", "image", reference]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _isolation() -> list[str]:
    """Steps run without a network; where no runtime is installed, only without other files."""
    if shutil.which("runc") or shutil.which("crun"):
        return ["--isolation", "oci", "--network", "none"]
    return ["--isolation", "chroot"]


def _plain_http(reference: str) -> list[str]:
    """A registry on this machine's own loopback has no certificate, as with Docker."""
    return ["--tls-verify=false"] if reference.startswith(_LOOPBACK) else []


def _run(arguments: list[str], say: Say) -> None:
    if shutil.which("buildah") is None:
        raise UsageError("buildah is not installed", "sudo apt-get install buildah")
    last = ""
    with subprocess.Popen(
        ["buildah", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        stdin=subprocess.DEVNULL, errors="replace",
    ) as child:  # fmt: skip
        for line in child.stdout or ():
            say(line.rstrip())
            last = (last + line)[-_LAST_WORDS:]
    if child.returncode:
        raise RemoteError(f"buildah {arguments[0]} failed: {last.strip()}", "see above")
