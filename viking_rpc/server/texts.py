"""Add to matches the texts that only the store has, until an answer is as large as it may be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.query import View
from viking_rpc.domain.trace import AnswerWarning
from viking_rpc.server.convert_answer import MAX_RESPONSE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from viking_rpc.domain.context import Context
    from viking_rpc.domain.trace import Match
    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner

_HYDRATED_AT_ONCE: Final = 16


async def with_texts(
    runner: Runner, matches: Sequence[Match], view: View, call: Call
) -> tuple[tuple[Match, ...], tuple[AnswerWarning, ...]]:
    """Read the long texts of matches.

    Args:
        runner: the server's state.
        matches: best first.
        view: which texts; nothing is read for ABSTRACT and below.
        call: who asks, and until when.

    Returns:
        The matches with their texts, the last ones left out where all do not fit into one answer, and what was
        degraded: a match that was removed meanwhile comes without texts.
    """
    if view <= View.ABSTRACT or not matches:
        return tuple(matches), ()
    read_matches: list[Match] = []
    warnings: list[AnswerWarning] = []
    n_chars = n_missing = 0
    for lo in range(0, len(matches), _HYDRATED_AT_ONCE):
        if n_chars > MAX_RESPONSE_BYTES:
            text = f"the last {len(matches) - lo} matches were left out: their texts do not fit into one answer"
            warnings.append(AnswerWarning("RESPONSE_TRUNCATED", text))
            break
        part = matches[lo : lo + _HYDRATED_AT_ONCE]
        stored = await runner.in_thread(call, _read, runner, [match.context.uri for match in part], view, call)
        for match, read in zip(part, stored, strict=True):
            if read is None:
                n_missing += 1
                read_matches.append(match)
                continue
            context = replace(match.context, overview=read.overview, content=read.content, relations=read.relations)
            read_matches.append(match._replace(context=context))
            n_chars += len(read.overview) + len(read.content)
    if n_missing:
        text = f"{n_missing} matches were removed while their texts were read, and come without"
        warnings.append(AnswerWarning("TEXT_MISSING", text))
    return tuple(read_matches), tuple(warnings)


def _read(runner: Runner, uris: Sequence[str], view: View, call: Call) -> list[Context | None]:
    """Read contexts with their long texts; None for one that is gone."""
    get, account = runner.store.get, call.identity.account
    return [get(account, uri, with_overview=True, with_content=view >= View.FULL) for uri in uris]
