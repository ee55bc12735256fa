"""Judgements: pure functions of one Case and the Matrix, one file a rung.

Belongs here: what follows from facts and matrix rows. Does not belong here: reading
a machine, versions or other knowledge as literals, wording of reports. The list of all
rules is `doctor.rules.registry.RULES`; importing it imports every rule.
"""
