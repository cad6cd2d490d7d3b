"""A writer is killed at random moments, again and again; what it acknowledged is compared with what is found.

    python -m benchmarks.crash --rounds 50 --json

Measures: contexts that were acknowledged and are missing or different (`lost`), writes of which only a part is there,
or a state that contradicts itself (`torn`), and contexts that are there though their removal was acknowledged, or
that nobody wrote (`resurrected`). All must be 0. Each round starts a process (benchmarks.crash_writer) in which three
threads write to trees of their own (upserts, replacements, deletions, moves, touches), a fourth imports and a fifth
lays the tree out; it is ended with SIGKILL: at a random moment, or just after a write of a chosen kind began, or while
the store is opened. In every third round two such processes share the directory, and each is killed at a moment of its
own. Every tenth round begins with an empty directory, so that the making of the schema is hit too. Then the database is
read whole, checked (integrity, foreign keys), and the tree that a restart takes from the checkpoint and the change log
is compared with it, vectors included.

What a kill cannot show is the loss of power: the operating system keeps what was written. `synchronous = FULL` is for
that.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from benchmarks.crash_writer import ACCOUNT, Effects, digest_of, open_store, stored_in
from viking_rpc.store import schema
from viking_rpc.store.backup import DATABASE_NAME
from viking_rpc.store.lock import DataLock

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What a round waits for before it kills; "open" is the time between the start of the opening and its end.
MOMENTS = ("any", "open", "upsert", "replace", "delete", "move", "touch", "import", "layout")
_NEW_EVERY = 10
_SHARED_EVERY = 3
_MAX_SHOWN = 5


@dataclass(slots=True)
class Verdict:
    """What was found so far; `problems` says in words what the numbers count."""

    rounds: int = 0
    lost: int = 0
    torn: int = 0
    resurrected: int = 0
    acknowledged: int = 0
    in_flight: int = 0
    in_flight_kept: int = 0
    killed_during: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def count(self, name: str, problem: str) -> None:
        """Count a problem."""
        setattr(self, name, getattr(self, name) + 1)
        if len(self.problems) < _MAX_SHOWN:
            self.problems.append(f"round {self.rounds}: {name}: {problem}")


class Watch:
    """Follows a writer's reports: the acknowledged state, and the writes that have begun and are not acknowledged."""

    def __init__(self, state: dict[str, str]) -> None:
        """Begin with what is stored."""
        self.state = state
        self.begun: dict[int, tuple[str, Effects]] = {}
        self.n_done = 0
        self._seen: list[str] = []
        self._changed = threading.Condition()
        self._is_over = False

    def follow(self, lines: IO[str]) -> None:
        """Read until the writer is dead; a line without an end was cut by the kill."""
        for line in lines:
            if not line.endswith("\n"):
                break
            self._take(*json.loads(line))
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _take(self, event: str, n: int = -1, what: str = "", effects: Effects | None = None) -> None:
        with self._changed:
            if event == "begin":
                self.begun[n] = (what, effects or {})
                self._seen.append(what)
            elif event == "done":
                what, effects = self.begun.pop(n)
                self.n_done += what != "layout"
                for uri, digest in (effects or {}).items():
                    if digest is None:
                        self.state.pop(uri, None)
                    else:
                        self.state[uri] = digest
            else:
                self._seen.append(event)
            self._changed.notify_all()

    def wait(self, event: str, n: int = 1) -> bool:
        """Wait until an event was seen `n` times; False when the writer ended before."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._seen.count(event) >= n)
            return self._seen.count(event) >= n


def run(rounds: int, seed: int) -> Verdict:
    """Kill and compare."""
    verdict = Verdict()
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="viking-crash-") as scratch:
        folder = Path(scratch) / "data"
        state: dict[str, str] = {}
        for i in range(rounds):
            verdict.rounds = i + 1
            is_new = i % _NEW_EVERY == 0
            if is_new:
                shutil.rmtree(folder, ignore_errors=True)
                state = {}
            moment = "open" if is_new and i else MOMENTS[i % len(MOMENTS)]
            places = ("left", "right") if i % _SHARED_EVERY == _SHARED_EVERY - 1 else ("",)
            watches = _lives(folder, seed * 1000 + i, moment, places, state, chance, verdict)
            state = judge(folder, watches, verdict)
    return verdict


def _lives(
    folder: Path,
    seed: int,
    moment: str,
    places: Sequence[str],
    state: dict[str, str],
    chance: random.Random,
    verdict: Verdict,
) -> list[Watch]:
    """Start a writer for each place and kill them; everything that they reported is in the watches then."""
    watches = [Watch({uri: digest for uri, digest in state.items() if _is_of(uri, place)}) for place in places]
    moments = [(moment, chance.randrange(2, 12), chance.random()) for _ in places]
    threads = [
        threading.Thread(target=_one_life, args=(folder, seed + 500 * n, place, watch, *moments[n], verdict))
        for n, (place, watch) in enumerate(zip(places, watches, strict=True))
    ]
    with DataLock.acquire(folder) if len(places) > 1 else nullcontext():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # What belongs to nobody who wrote in this round must be as it was.
    idle = Watch({uri: digest for uri, digest in state.items() if not any(_is_of(uri, place) for place in places)})
    return [*watches, idle]


def _is_of(uri: str, place: str) -> bool:
    """Return whether a context lies in the trees of a place; without a place, in those of a writer that is alone."""
    name = uri.split("/")[3]
    return name.startswith(place) if place else not name.startswith(("left", "right"))


def _one_life(
    folder: Path, seed: int, place: str, watch: Watch, moment: str, n_seen: int, delay: float, verdict: Verdict
) -> None:
    """Start a writer, wait for the moment and kill it."""
    command = [sys.executable, "-m", "benchmarks.crash_writer", str(folder), str(seed), *filter(None, [place])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        reader = threading.Thread(target=watch.follow, args=(writer.stdout,))
        reader.start()
        try:
            is_alive = watch.wait("opening" if moment == "open" else "ready")
            if is_alive and moment == "open":
                time.sleep(delay * 0.06)
            elif is_alive and moment == "any":
                time.sleep(delay * 1.5)
            elif is_alive:
                is_alive = watch.wait(moment, n_seen)
                time.sleep(delay * 0.01)
            if not is_alive:
                verdict.count("torn", f"the writer ended by itself, {writer.poll()}")
        finally:
            writer.kill()
            reader.join()
    verdict.killed_during.update([*(what for what, _ in watch.begun.values())] or [moment])


def judge(folder: Path, watches: Sequence[Watch], verdict: Verdict) -> dict[str, str]:
    """Compare what is stored with what was acknowledged; returns what is stored.

    A write that had begun may be there or not, as a whole. Writers never write to one another's trees, so the effects
    of those that had begun do not overlap.
    """
    state = {uri: digest for watch in watches for uri, digest in watch.state.items()}
    begun = [effects for watch in watches for _, effects in watch.begun.values() if effects]
    verdict.acknowledged += sum(watch.n_done for watch in watches)
    if not (folder / DATABASE_NAME).exists():
        if state:
            verdict.count("lost", "the database is gone")
        return {}
    with DataLock.acquire(folder):
        _check_tree(folder, verdict)
        found = {uri: digest_of(write) for uri, write in stored_in(folder).items()}
    allowed: dict[str, set[str | None]] = {uri: {digest} for uri, digest in state.items()}
    for effects in begun:
        verdict.in_flight += 1
        before = {uri: state.get(uri) for uri in effects}
        now = {uri: found.get(uri) for uri in effects}
        verdict.in_flight_kept += now == effects
        if now not in (before, effects):
            differing = [uri for uri in effects if now[uri] != effects[uri]]
            verdict.count("torn", f"{len(differing)} of {len(effects)} effects are missing, {differing[0]}")
        for uri, digest in effects.items():
            allowed.setdefault(uri, {None}).add(digest)
    for uri in {*found, *allowed}:
        digest = found.get(uri)
        if uri.count("/") < 3 or digest in allowed.get(uri, {None}):  # the scopes are made with what they hold
            continue
        verdict.count("lost" if None not in allowed.get(uri, {None}) else "resurrected", uri)
    return {uri: digest for uri, digest in found.items() if uri.count("/") >= 3}


def _check_tree(folder: Path, verdict: Verdict) -> None:
    """Check the database by itself, and the tree that a restart has against it."""
    with open_store(folder) as store:
        snapshot = store.snapshot(ACCOUNT)
        with store.database.scan(ACCOUNT) as scan:
            records = list(scan.records)
        if len(records) != scan.n_contexts or sum(len(record.rows) for record in records) != scan.n_rows:
            verdict.count("torn", "the account's counts are wrong")
        if (snapshot.revision, snapshot.n_contexts) != (scan.revision, scan.n_contexts):
            verdict.count("torn", "the tree is of another revision than the database")
        vectors = snapshot.rows.vectors
        for record in records:
            node = snapshot.node_of_key(record.key)
            if node < 0 or snapshot.tree.is_gone[node] or snapshot.version[node] != record.version:
                verdict.count("torn", f"context {record.key} is not in the tree, or an older version of it")
                continue
            rows = range(int(snapshot.tree.row_lo[node]), int(snapshot.tree.row_hi[node]))
            if [vectors[row].tobytes() for row in rows] != [row.vector.tobytes() for row in record.rows]:
                verdict.count("torn", f"context {record.key} has other vectors in the tree")
    with closing(schema.connect(folder / DATABASE_NAME, is_writer=False)) as connection:
        answers = connection.execute("PRAGMA integrity_check").fetchall()
        answers += connection.execute("PRAGMA foreign_key_check").fetchall()
        if answers != [("ok",)]:
            verdict.count("torn", f"integrity: {answers[:3]}")


def main() -> None:
    """Parse the arguments, run, print; the exit code says whether all was found as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    started = time.perf_counter()
    verdict = run(arguments.rounds, arguments.seed)
    report = {
        "rounds": verdict.rounds,
        "lost": verdict.lost,
        "torn": verdict.torn,
        "resurrected": verdict.resurrected,
        "acknowledged": verdict.acknowledged,
        "in_flight": verdict.in_flight,
        "in_flight_kept": verdict.in_flight_kept,
        "killed_during": dict(verdict.killed_during),
        "seed": arguments.seed,
        "seconds": round(time.perf_counter() - started, 1),
    }
    for problem in verdict.problems:
        print(problem, file=sys.stderr)
    if arguments.json:
        print(json.dumps(report))
    else:
        for key, value in report.items():
            print(f"{key:>16}  {value}")
    sys.exit(bool(verdict.lost or verdict.torn or verdict.resurrected))


if __name__ == "__main__":
    main()
