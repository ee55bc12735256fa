"""Judge, provision and prove hosts for LLM inference.

Each folder has one job: facts are observed, the matrix is known, rules are
judgements, and everything else feeds the judge or acts on what it says.
"""

__version__ = "0.1.0"
