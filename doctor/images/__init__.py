"""Container images: read as streams of files, built from images/, pinned, verified.

Nothing of an image is ever run to learn what is in it. What an image says becomes facts
that the same rules judge; compatibility logic does not belong here.
"""
