#!/bin/sh
# Ask the server of this container whether it is ready; this image has no Python.
# The port is the one on the command line of the container's first process, else DOCTOR_PORT.
port=$(tr '\0' '\n' < "${DOCTOR_CMDLINE:-/proc/1/cmdline}" |
    sed -n -e 's/^--port=//p' -e '/^--port$/{n;p;}' | tail -n 1)
exec curl -fsS -o /dev/null "http://127.0.0.1:${port:-$DOCTOR_PORT}/health"
