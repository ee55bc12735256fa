"""How one registry is asked to let this user in: its challenge, and the user's own login.

Logins are those of docker's configuration (`docker login`), its helpers included. They are
read when a registry asks for them, sent to it or to the token service that it names, and
kept nowhere. Source: distribution.github.io/distribution/spec/auth/token, docs.docker.com
(docker login: credential stores).
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from doctor.errors import RemoteError
from doctor.named_files import read_named
from doctor.profile.web import Call, get, split

HUB = "docker.io"
# Under this name docker keeps the login of its own hub.
_HUB_LOGIN = "https://index.docker.io/v1/"
_LIMIT, _HELPER_S = 1 << 20, 30
_PAIR = re.compile(r'(\w+)="([^"]*)"')
_HELPER = re.compile(r"[A-Za-z0-9_-]{1,60}")
# What a helper answers in place of a password when it holds a refresh token.
_TOKEN_USER = "<token>"  # noqa: S105 - a name


@dataclass(frozen=True)
class Login:
    """A user and password, or a refresh token; nothing of both for nobody."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The Authorization header, "" for nobody."""
        if not self.user:
            return ""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


def answer_challenge(challenge: str, registry: str, scope: str, login: Login) -> str:
    """The Authorization header that a registry asked for by WWW-Authenticate; "" for none.

    Raises RemoteError if its token service gives none.
    """
    kind, _, rest = challenge.partition(" ")
    if kind.lower() == "basic":
        return login.basic
    if kind.lower() != "bearer":
        return ""
    asked = dict(_PAIR.findall(rest))
    realm = asked.get("realm", "")
    place = split(realm)
    if place.scheme != "https" and not is_here(place.hostname or ""):
        raise RemoteError(f"{registry} wants the login sent without TLS", "use another registry")
    wanted = {"service": asked.get("service", ""), "scope": asked.get("scope", scope)}
    reply, body = get(_token_call(realm, wanted, login), _LIMIT)
    found = _object(body)
    token = found.get("token") or found.get("access_token")
    if reply.status != 200 or not isinstance(token, str):
        raise RemoteError(
            f"{registry} lets nobody in for {scope} (its token service answers {reply.status})",
            f"docker login {registry}",
        )
    return f"Bearer {token}"


def _token_call(realm: str, wanted: dict[str, str], login: Login) -> Call:
    if not login.token:
        return Call(f"{realm}?{urlencode(wanted)}", secret=login.basic)
    form = {**wanted, "grant_type": "refresh_token", "client_id": "doctor"}
    data = urlencode({**form, "refresh_token": login.token}).encode()
    return Call(realm, {"Content-Type": "application/x-www-form-urlencoded"}, data=data)


def is_here(host: str) -> bool:
    """Whether that is this very machine, where no TLS is needed, as docker has it."""
    return host in ("localhost", "::1") or host.startswith("127.")


def find_login(registry: str, environ: Mapping[str, str]) -> Login:
    """The user's login for a registry; nobody if there is none that can be read."""
    folder = environ.get("DOCKER_CONFIG") or f"{environ.get('HOME', '')}/.docker"
    try:
        config = _object(read_named(Path(folder, "config.json"), _LIMIT))
    except OSError:
        return Login()
    names = (_HUB_LOGIN, HUB) if registry == HUB else (registry, f"https://{registry}")
    helpers = config.get("credHelpers")
    helper = helpers.get(registry) if isinstance(helpers, dict) else None
    helper = helper or config.get("credsStore")
    for name in names:
        found = _from_helper(helper, name) if helper else _from_file(config, name)
        if found != Login():
            return found
    return Login()


def _from_file(config: dict[str, Any], name: str) -> Login:
    logins = config.get("auths")
    entry = logins.get(name) if isinstance(logins, dict) else None
    if not isinstance(entry, dict):
        return Login()
    if entry.get("identitytoken"):
        return Login(token=str(entry["identitytoken"]))
    try:
        pair = base64.b64decode(str(entry.get("auth", ""))).decode()
    except ValueError:
        return Login()
    user, _, password = pair.partition(":")
    return Login(user, password)


def _from_helper(helper: object, name: str) -> Login:
    """Ask docker-credential-HELPER, as docker does."""
    if not isinstance(helper, str) or not _HELPER.fullmatch(helper):
        return Login()
    try:
        answer = subprocess.run(
            [f"docker-credential-{helper}", "get"],
            input=name.encode(),
            capture_output=True,
            timeout=_HELPER_S,
            env=dict(os.environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Login()
    found = _object(answer.stdout)
    user, secret = str(found.get("Username", "")), str(found.get("Secret", ""))
    return Login(token=secret) if user == _TOKEN_USER else Login(user, secret)


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
