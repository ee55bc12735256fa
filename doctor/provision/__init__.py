"""Makes a machine what a profile wants, proves it, and can take it back.

Belongs here: survey (reads), plan (pure), the Ansible adapter, journal, apply, rollback, drift.
Does not belong here: compatibility logic (diagnose has it), wording of reports.
"""
