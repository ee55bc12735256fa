"""`python -m doctor`."""

import os
import sys


def _leave_out_this_folder() -> None:
    """Look for no module where one stands: `python -m` does so first, and it may be examined.

    Nothing is imported before, not even from the standard library.
    """
    own = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    try:
        if os.path.realpath(sys.path[0] or os.curdir) == os.getcwd() != own:
            del sys.path[0]
    except OSError:  # the folder where one stands is gone
        pass


if __name__ == "__main__":
    try:
        _leave_out_this_folder()
        from doctor.entry import main

        main()
    except KeyboardInterrupt:
        print("doctor: interrupted", file=sys.stderr)
        sys.exit(130)
