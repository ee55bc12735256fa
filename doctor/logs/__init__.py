"""Text that an engine printed → the causes that it may speak of. Pure.

Belongs here: finding the first real error by the matrix's signatures, and telling its
candidate causes apart by facts. Does not belong here: reading files, ranking findings.
"""

from doctor.logs.candidates import Suspicion, suspect
from doctor.logs.match import LogMatch, find_matches

__all__ = ["LogMatch", "Suspicion", "find_matches", "suspect"]
