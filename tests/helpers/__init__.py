"""Data, cases and processes that several tests share."""
