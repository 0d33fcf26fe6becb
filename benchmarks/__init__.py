"""Error per second and per byte: every map by its cases against its rivals, run side by side in one
process.
"""
