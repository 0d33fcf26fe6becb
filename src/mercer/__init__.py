"""Kernel methods at linear cost."""
