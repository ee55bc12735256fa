"""First file of the zipapp: starts the probes, or says why this Python cannot.

It must run on any Python 3, also on one that lacks half of its standard library.
"""

import sys

_OLDEST = (3, 9)
_ROW = '{"schema": "doctor/facts/v1", "notes": ["%s"]}'
_PACKAGES = "install the package python3 (Debian, Ubuntu) or python3-libs (Fedora, RHEL)"


def main() -> int:
    """Print the facts; 3 with a row that says why if this Python cannot collect them."""
    if sys.version_info < _OLDEST:
        found = ".".join(str(part) for part in sys.version_info[:3])
        wanted = ".".join(str(part) for part in _OLDEST)
        print(_ROW % ("python3 is " + found + ": " + wanted + " or newer is needed"))
        return 3
    try:
        from doctor.probes.standalone import main as collect
    except ImportError as error:
        lacking = getattr(error, "name", None) or "of its standard library"
        print(_ROW % ("this python3 lacks the module " + lacking + ": " + _PACKAGES))
        return 3
    return collect(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
