"""Ask the engine of this container whether it is ready; exit 0 if it is.

The port is the one on the command line of the container's first process, else DOCTOR_PORT.
"""

import http.client
import os
import re
import sys


def port() -> int:
    """Where the engine listens."""
    with open("/proc/1/cmdline", "rb") as file:
        line = file.read().decode("utf-8", "replace")
    match = re.search(r"\0(?:--port|-p)[=\0](\d{1,5})(?:\0|$)", line)
    return int(match[1] if match else os.environ["DOCTOR_PORT"])


def main() -> int:
    """Ask once; 0 if the engine is ready."""
    connection = http.client.HTTPConnection("127.0.0.1", port(), timeout=4)
    connection.request("GET", os.environ.get("DOCTOR_HEALTH", "/health"))
    return 0 if connection.getresponse().status == 200 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError:
        sys.exit(1)
