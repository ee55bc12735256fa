"""Live sources → Facts. One file per source: `read(host)` is the only I/O, `parse_*` never raises.

Belongs here: reading a machine. Does not belong here: printing, judging, versions as
literals. Standard library and pynvml only, Python 3.9: this folder travels in the zipapp.
"""
