"""`python -m doctor`."""

import os
import sys

# `python -m` looks for modules first where one stands, and that may be what is examined.
# Nothing is imported before, not even from the standard library.
_OWN = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
try:
    if os.path.realpath(sys.path[0] or os.curdir) == os.getcwd() != _OWN:
        del sys.path[0]
except OSError:  # the folder where one stands is gone
    pass

from doctor.cli.main import main  # noqa: E402 - only now

if __name__ == "__main__":
    main()
