"""What a shared library, wheel or folder contains and needs, read from its bytes.

Belongs here: ELF, CUDA fat binaries, HIP bundles, wheels, the loader's search rules.
Does not belong here: judging what was found, or anything that loads or runs a file.
Standard library only (`zstandard` if it is there), Python 3.9: part of the zipapp.
"""
