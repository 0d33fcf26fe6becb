"""Solvers of ridge regression, LASSO and margin losses."""
