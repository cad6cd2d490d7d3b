"""Implementations of the ports in domain/ports.py, one file each."""
