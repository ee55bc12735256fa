"""Which versions would work together on a host, before anything is installed.

Belongs here: proposing stacks from the matrix and having them judged by `diagnose`.
Does not belong here: any knowledge of what is compatible with what.
"""
