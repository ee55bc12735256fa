"""The proof: a known answer from the real engine, over its own HTTP interface.

Belongs here: the known-answer model, the client, the readiness ladder, launching and
stopping engines. Does not belong here: judging hosts, wording of reports.
"""
