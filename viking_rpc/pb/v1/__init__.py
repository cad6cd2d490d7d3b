"""Generated from protos/viking/v1 by protos/generate.py."""
