"""What the programs of other languages must have seen."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

from tests.polyglot.front import N_REFUSED, refusing_front
from tests.polyglot.toolchains import PROTOS

if TYPE_CHECKING:
    from collections import Counter


@dataclass(frozen=True, slots=True)
class Seen:
    """What a program printed, and what the front counted of its calls."""

    said: Any
    n_calls: Counter[str]


def run_program(command: list[str], address: str) -> Seen:
    """Run a program against a server, and against the front that refuses first."""
    with refusing_front(address) as (front_address, front):
        arguments = [address, front_address, str(PROTOS / "service_config.json")]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return Seen(json.loads(done.stdout), front.n_calls)


class ProgramTests:
    """The same for every language: a module's test class takes them over, and gives `root` and a fixture `seen`."""

    root: str

    def test_imports_a_hundred_contexts_in_one_stream(self, seen: Seen) -> None:
        assert seen.said["imported"]["count"] == 100
        assert seen.said["imported"]["revision"] > 0

    def test_retrieves_what_it_has_just_written(self, seen: Seen) -> None:
        assert seen.said["retrieved"][0] == f"{self.root}/hall-4/bay-42.md"
        assert len(seen.said["retrieved"]) == 5

    def test_reads_all_violations_of_a_bad_request(self, seen: Seen) -> None:
        refused = seen.said["refused"]
        assert refused["code"] == grpc.StatusCode.INVALID_ARGUMENT.value[0]
        assert refused["reason"]
        assert {violation["field"] for violation in refused["violations"]} == {
            "query.text",
            "limit",
            "options.score_propagation_alpha",
        }
        assert all(violation["reason"] for violation in refused["violations"])

    def test_honours_its_deadline(self, seen: Seen) -> None:
        assert seen.said["late"]["code"] == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]

    def test_tries_again_what_is_unavailable_and_safe_to_repeat(self, seen: Seen) -> None:
        assert seen.said["retried"] == seen.said["retrieved"]
        assert seen.n_calls["Retrieve"] == N_REFUSED + 1

    def test_does_not_repeat_what_is_not_safe(self, seen: Seen) -> None:
        assert seen.said["unretried"]["code"] == grpc.StatusCode.UNAVAILABLE.value[0]
        assert seen.n_calls["TouchContexts"] == 1

    def test_reads_every_step_and_then_the_answer(self, seen: Seen) -> None:
        watched = seen.said["watched"]
        assert watched["steps"] == list(range(len(watched["steps"])))
        assert watched["steps"]
        assert watched["matches"] == seen.said["retrieved"]
