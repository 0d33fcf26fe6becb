"""Learning on features: least squares from moments, and from blocks where their square does not
fit.
"""
