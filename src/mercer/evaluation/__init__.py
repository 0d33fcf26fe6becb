"""Measured errors of fitted maps, and what a fit would cost."""
