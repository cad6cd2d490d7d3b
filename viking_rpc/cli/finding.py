"""`viking find`: read what was typed, ask, show."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viking_rpc.cli.answers import level_of, show_answer
from viking_rpc.cli.as_json import to_json
from viking_rpc.cli.console import out, print_json
from viking_rpc.cli.session import open_client
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.query import (
    Filter,
    Grouping,
    Mode,
    Profile,
    Query,
    RerankMode,
    RetrieveOptions,
    RetrieveRequest,
    Scope,
    TraceLevel,
)
from viking_rpc.domain.times import parse_tags, parse_time_range
from viking_rpc.errors import InvalidArgumentError, PermissionDeniedError, Violation

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was typed, as it was typed."""

    query: str
    targets: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    mode: str = "thinking"
    profile: str = "balanced"
    limit: int = 10
    levels: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    threshold: float | None = None
    rerank: str | None = None
    per_group: int | None = None
    group_depth: int = 0
    page_token: str = ""
    has_trace: bool = False


def find_contexts(wanted: Wanted, *, data: Path | None, server: str | None, config: Path | None, as_json: bool) -> None:
    """Find contexts and print them."""
    request = make_request(wanted, time.time_ns() // 1000)
    with open_client(data=data, server=server, config=config) as client:
        result = client.retrieve(request)
    if as_json:
        print_json(to_json(result))
        return
    for part in show_answer(result, has_trace=wanted.has_trace):
        out.print(part)


def make_request(wanted: Wanted, now_us: int) -> RetrieveRequest:
    """Turn what was typed into a request.

    Args:
        wanted: as it was typed.
        now_us: what ages count back from.

    Raises:
        InvalidArgumentError: all that is wrong with it, whether the command line or the contract says so.
    """
    found: list[Violation] = []
    tags: dict[str, str] = {}
    since_us = before_us = None
    try:
        tags = parse_tags(wanted.tags, "--tag")
    except InvalidArgumentError as error:
        found += error.violations
    try:
        since_us, before_us = parse_time_range(
            wanted.since, wanted.until, now_us, since_field="--since", until_field="--until"
        )
    except InvalidArgumentError as error:
        found += error.violations
    levels = {text: level_of(text) for text in wanted.levels}
    found += (
        Violation("--level", f"{text!a} is none of L0, L1, L2") for text, level in levels.items() if level is None
    )
    request = RetrieveRequest(
        query=Query(text=wanted.query),
        scope=Scope(wanted.targets, frozenset(ContextType[name.upper()] for name in wanted.types)),
        filter=Filter(
            tags=tags,
            levels=frozenset(level for level in levels.values() if level is not None),
            updated_since_us=since_us,
            updated_before_us=before_us,
        ),
        limit=wanted.limit,
        mode=Mode[wanted.mode.upper()],
        options=RetrieveOptions(
            profile=Profile[wanted.profile.upper()],
            score_threshold=wanted.threshold,
            rerank_mode=None if wanted.rerank is None else RerankMode[wanted.rerank.upper()],
        ),
        trace_level=TraceLevel.STEPS if wanted.has_trace else TraceLevel.STATS,
        grouping=None if wanted.per_group is None else Grouping(wanted.per_group, wanted.group_depth),
        page_token=wanted.page_token,
    )
    _check(request, now_us, found)
    return request


def _check(request: RetrieveRequest, now_us: int, found: list[Violation]) -> None:
    """Refuse what no server takes, all of it at once; who may read what is the server's to say."""
    from viking_rpc.server.validate import check_request

    with suppress(PermissionDeniedError):
        try:
            check_request(request, LOCAL, now_us, dimensions=0, found=found)
        except InvalidArgumentError as error:
            violations = tuple(
                replace(v, description="must not be empty") if v.reason == "EMPTY_QUERY" else v
                for v in error.violations
            )
            message = "the call cannot work as it stands"
            raise replace(error, message=message, violations=violations) from None
