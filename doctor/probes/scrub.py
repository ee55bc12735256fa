"""Take out of a recording what names people and machines; the same thing gets the same name."""

from __future__ import annotations

import re
from typing import Any

from doctor.probes.environment import cut_tokens

_UUID = re.compile(
    r"(?<![0-9a-fA-F])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9a-fA-F])"
)
# EFI's global namespace: the same on every machine, and part of a path that is read.
_PUBLIC_UUIDS = frozenset({"8be4df61-93ca-11d2-aa0d-00e098032b8c"})
_MAC = re.compile(r"(?<![0-9a-fA-F:])[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}(?![0-9a-fA-F:])")
_HOME = re.compile(r"(/(?:var/)?home/)([^/\s:;,'\"]{1,64})")
# Four numbers may also be a version: only where a port, a scheme or an @ stands beside.
_ADDRESS = re.compile(
    r"(?:(?<=//)|(?<=@))(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?=:\d)"
)
_LOCAL = ("127.", "0.0.0.")
# Host names that are also words of the texts in which they would be replaced.
_COMMON = frozenset(
    """
    admin cuda debian docker fedora host home llama local localhost mindie node nvidia ollama
    root server sglang torch triton ubuntu user users vllm
    """.split()  # noqa: SIM905
)
_SHORTEST = 4


class Scrubber:
    """Replaces names consistently over all texts of one recording."""

    def __init__(self, home: str = "", host_name: str = "") -> None:
        self._known: dict[str, dict[str, str]] = {}
        user, name = home.rpartition("/")[2], host_name.partition(".")[0]
        if user and home != "/root":
            self._known["home"] = {user: "user"}
        self._user = re.compile(rf"(?<=/){re.escape(user or ' ')}(?=/|$)", re.MULTILINE)
        telling = len(name) >= _SHORTEST and name.lower() not in _COMMON
        full = re.escape(name) + r"(?:\.[\w.-]+)?" if telling else r"(?!)"
        self._host = re.compile(rf"(?<![A-Za-z0-9]){full}(?![A-Za-z0-9])")

    def text(self, text: str) -> str:
        """The text without names, identifiers and tokens."""
        text = cut_tokens(text)
        text = _HOME.sub(lambda m: m[1] + self._alias("home", m[2], "user{}"), text)
        if "home" in self._known:
            text = self._user.sub("user", text)
        text = self._host.sub("host", text)
        text = _UUID.sub(self._uuid, text)
        text = _MAC.sub(lambda m: self._alias("mac", m[0].lower(), "00:00:5e:00:53:{:02x}"), text)
        return _ADDRESS.sub(self._address, text)

    def tree(self, value: Any) -> Any:
        """A JSON value with every text in it scrubbed, keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(k)): self.tree(v) for k, v in value.items()}
        return [self.tree(item) for item in value] if isinstance(value, (list, tuple)) else value

    def _alias(self, kind: str, name: str, form: str) -> str:
        known = self._known.setdefault(kind, {})
        return known.setdefault(name, form.format(len(known) + 1))

    def _uuid(self, match: re.Match[str]) -> str:
        if match[0].lower() in _PUBLIC_UUIDS:
            return match[0]
        return self._alias("uuid", match[0].lower(), "00000000-0000-0000-0000-{:012d}")

    def _address(self, match: re.Match[str]) -> str:
        if match[0].startswith(_LOCAL):
            return match[0]
        return self._alias("address", match[0], "192.0.2.{}")
