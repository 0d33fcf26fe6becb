"""Tiles of rows, threads, devices and Dask clusters."""
