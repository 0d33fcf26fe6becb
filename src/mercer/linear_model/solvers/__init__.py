"""Solvers of least squares, LASSO and margin losses."""
