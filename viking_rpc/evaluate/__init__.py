"""Measure retrieval on a set of queries with judgments, through the code that the server runs."""
