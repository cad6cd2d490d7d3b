"""What all tests share: the same examples in every run, and compiled kernels kept in the repository."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

# Read when the kernels are imported, hence before any test module is. Not the user's folder: a test run leaves no trace.
os.environ.setdefault("VIKING_CACHE_DIR", str(Path(__file__).resolve().parent.parent / ".cache"))
# Kernels do not look at the types of their arguments unless told to.
os.environ.setdefault("VIKING_CHECK_KERNELS", "1")

# No deadlines and no health check by the clock: a busy machine is not a failure.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
# Looks for what the fixed examples miss: HYPOTHESIS_PROFILE=explore. What it finds becomes an @example.
settings.register_profile("explore", settings.get_profile("repeatable"), derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(autouse=True)
def _log_of_its_own() -> Iterator[None]:
    """End the log that a test set up: later lines would go to a stream that is gone, and count as dropped."""
    yield
    module = sys.modules.get("viking_rpc.server.log_pipeline")
    for pipeline in list(module._pipelines) if module else ():
        logging.getLogger().removeHandler(pipeline)
        pipeline.close()
