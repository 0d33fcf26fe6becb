"""Statistics of rows that are summed in one pass and merged."""
