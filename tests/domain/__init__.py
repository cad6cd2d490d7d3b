"""Tests of the domain: frozen values and pure functions."""
