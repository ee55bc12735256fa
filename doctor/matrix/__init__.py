"""What is known about versions that work together, as sourced data.

Belongs here: the data files, their schema, loading, queries that only look up.
Does not belong here: facts of a host, and judgement about one.
"""

from doctor.matrix.claims import ClaimMatch, capability_matches
from doctor.matrix.load import load_matrix
from doctor.matrix.query import Matrix

__all__ = ["ClaimMatch", "Matrix", "capability_matches", "load_matrix"]
