"""Time and accuracy of every map against reference implementations, in one process."""
