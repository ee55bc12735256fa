"""What reports like this one turned out to be, where no rule decides. Pure.

Belongs here: what a report states as words that can be counted, and the weights of labelled
public reports put together. Does not belong here: judging (rules/), or a word of certainty:
what comes out is a direction in which to look, and it says how often it was right.
"""

from doctor.likelihood.features import features
from doctor.likelihood.rank import Likely, likeliest

__all__ = ["Likely", "features", "likeliest"]
