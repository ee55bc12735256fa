"""Load on a server: how fast it answers, how much it carries, where it stops to gain.

Belongs here: what is sent and when, what is measured, figures, comparison with an earlier
run. Does not belong here: wording of reports; starting servers.
"""
