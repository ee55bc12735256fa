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
_HOME = re.compile(r"(/(?:var/)?home/|[/\\]Users[/\\])([^/\\\s:;,'\"\0]{1,64})")
# Four numbers may also be a version: only where a port, a scheme or an @ stands beside.
_ADDRESS = re.compile(
    r"(?:(?<=//)|(?<=@))(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?=:\d)"
)
# ... and these ranges are no version that anything here has.
_PRIVATE = re.compile(r"(?<![\w.])(?:192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2}(?![\w.])")
_NAMED = re.compile(
    r"(?i)((?<![A-Za-z])(?:inet|ip|addr|address|host|hostname|server|peer)[\"']?[ =:]{1,3}[\"']?)"
    r"((?:\d{1,3}\.){3}\d{1,3})(?![\w.])"
)
_IPV6 = re.compile(
    r"(?<![\w:.])(?:[23][0-9a-fA-F]{3}|[fF][cCdD][0-9a-fA-F]{2}|[fF][eE]80)"
    r"(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])"
)
_SERIAL = re.compile(
    r"(?i)(\bserial(?:[ _-]?(?:number|no|num))?\b[\"']?\s{0,40}[:=#]?\s{0,40}[\"']?)"
    r"(?=\w{0,39}\d)\w{6,40}"
)
_LOCAL = ("127.", "0.0.0.", "192.0.2.")
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
        # root is everybody's, and also the name of many folders.
        self._has_name = bool(user) and home != "/root"
        if self._has_name:
            self._known["home"] = {user: "user"}
        self._user = re.compile(rf"(?<=/){re.escape(user or ' ')}(?=/|$)", re.MULTILINE)
        telling = len(name) >= _SHORTEST and name.lower() not in _COMMON
        full = re.escape(name) + r"(?:\.[\w.-]+)?" if telling else r"(?!)"
        self._host = re.compile(rf"(?<![A-Za-z0-9]){full}(?![A-Za-z0-9])")

    def text(self, text: str) -> str:
        """The text without names, identifiers and tokens."""
        text = cut_tokens(text)
        text = _HOME.sub(lambda m: m[1] + self._alias("home", m[2], "user{}"), text)
        if self._has_name:
            text = self._user.sub("user", text)
        text = self._host.sub("host", text)
        text = _UUID.sub(self._uuid, text)
        text = _MAC.sub(lambda m: self._alias("mac", m[0].lower(), "00:00:5e:00:53:{:02x}"), text)
        text = _SERIAL.sub(r"\1[serial]", text)
        text = _IPV6.sub(self._address6, text)
        text = _NAMED.sub(lambda m: m[1] + self._address(m[2]), text)
        text = _PRIVATE.sub(lambda m: self._address(m[0]), text)
        return _ADDRESS.sub(lambda m: self._address(m[0]), text)

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

    def _address(self, address: str) -> str:
        if address.startswith(_LOCAL):
            return address
        return self._alias("address", address, "192.0.2.{}")

    def _address6(self, match: re.Match[str]) -> str:
        # Eight groups, or a double colon: otherwise it is a time or a number of a device.
        if "::" not in match[0] and match[0].count(":") != 7:
            return match[0]
        return self._alias("address6", match[0].lower(), "2001:db8::{}")
