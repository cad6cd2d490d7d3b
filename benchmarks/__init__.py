"""Measurements of viking-rpc; each module says what it measures, on which data, and by which command."""
