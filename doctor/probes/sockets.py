"""Daemons of this machine that answer HTTP over a unix socket."""

from __future__ import annotations

import os
import stat as modes
import time

from doctor.facts import Missing, Reading, missing, seen
from doctor.probes import files
from doctor.probes.host import TEXT_LIMIT


def get(path: str, target: str, timeout_s: float) -> Reading[str]:
    """Body of an HTTP GET; any status but 200 is `not-readable`."""
    at = f"{path} {target}"
    try:
        # Before the socket module is loaded, which most hosts then never need.
        if not modes.S_ISSOCK(os.stat(path).st_mode):
            return missing(Missing.NOT_READABLE, at)
        answer = _exchange(path, target, time.monotonic() + timeout_s)
    except OSError as error:
        late = isinstance(error, TimeoutError) or "timed out" in str(error)
        return missing(Missing.TIMED_OUT if late else files.why(error), at)
    except ValueError:  # a NUL in the path
        return missing(Missing.NOT_THERE, at)
    head, _, body = answer.partition(b"\r\n\r\n")
    if head[:5] != b"HTTP/" or head[8:13] != b" 200 ":
        return missing(Missing.NOT_READABLE, at)
    return seen(body.decode("utf-8", "replace"), at)


def _exchange(path: str, target: str, deadline: float) -> bytes:
    from socket import AF_UNIX, SOCK_STREAM, socket

    with socket(AF_UNIX, SOCK_STREAM) as connection:
        connection.settimeout(max(0.1, deadline - time.monotonic()))
        connection.connect(path)
        # Version 1.0: the answer ends with the connection and comes in one piece.
        connection.sendall(f"GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        answer = b""
        while len(answer) < TEXT_LIMIT:
            chunk = connection.recv(1 << 16)
            if not chunk:
                break
            if time.monotonic() > deadline:
                raise TimeoutError
            answer += chunk
    return answer
