"""Kernels check the types of their arguments in tests."""

import os

os.environ.setdefault("VIKING_CHECK_KERNELS", "1")
