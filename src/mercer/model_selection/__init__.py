"""The race of select: which maps run, over which course, on which rows, and how they are scored."""
