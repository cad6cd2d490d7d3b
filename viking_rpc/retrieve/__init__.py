"""Runs a query over a snapshot: resolve, seed, descend, finish."""
