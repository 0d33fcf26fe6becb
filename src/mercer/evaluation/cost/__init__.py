"""What a fit would take, before anything runs: the speeds of this machine, and what they make of a
map and its rows.
"""
