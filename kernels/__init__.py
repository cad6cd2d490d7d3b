"""Compiled scoring core: pure functions over arrays."""
