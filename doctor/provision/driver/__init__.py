"""The NVIDIA driver of a machine as one set: what is wanted, offered, installed, held, proven.

The machine is asked in ask.py alone; choosing, refusing and planning are pure. How a step is
carried out, journalled and taken back is no matter of this folder.
"""
