"""What is wanted (profiles) and what it was resolved to (locks).

Belongs here: the schema of profiles, reading them, locks. Nothing in a profile is evaluated.
Does not belong here: judging hosts, changing machines.
"""
