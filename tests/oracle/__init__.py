"""Obvious plain-Python implementations that the compiled code is compared with."""
