"""What is known about versions that work together, as sourced data.

Belongs here: the data files, their schema, loading, queries that only look up.
Does not belong here: facts of a host, and judgement about one.
"""

from doctor.matrix.load import load_matrix
from doctor.matrix.query import ClaimMatch, Matrix

__all__ = ["ClaimMatch", "Matrix", "load_matrix"]
