"""Tests of viking-rpc."""
