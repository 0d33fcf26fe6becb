"""Errors of maps against their exact kernels, and the cost of fits."""
