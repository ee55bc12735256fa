"""Driver, firmware, CANN and container runtime of Ascend NPUs, from the vendor's installers.

Belongs here: what a profile names, what is there, the steps between, their proof. Does not belong
here: judgements (diagnose has them), packages of NVIDIA (driver). Never run on a machine with NPUs.
"""
