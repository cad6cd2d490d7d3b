"""Compile the kernels before they are needed: several processes side by side, since one uses one core for it.

Kernels compile when their module is imported, and what one process compiled the next one reads from the cache.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from viking_rpc.cli.console import err, out, progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: These take the longest by far, so each gets a process of its own; the second one does the small rest too.
LONG: Final = ("walk", "scan")
_MARKER: Final = "compiled"
_CODE: Final = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module("viking_kernels." + name)
    print(name, flush=True)
"""


class Compilation:
    """Kernels that other processes are compiling; `wait` for them before they are needed here.

    Whatever goes wrong there costs time and nothing else: this process then compiles what it needs.
    """

    def __init__(self) -> None:
        """Start the processes."""
        self.modules = kernel_modules()
        first, second = LONG
        small = [name for name in self.modules if name not in LONG]
        self._started_s = time.perf_counter()
        self._done: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._processes = [_start([first]), _start([second, *small])]
        self._readers = [threading.Thread(target=self._read, args=(process,)) for process in self._processes]
        for reader in self._readers:
            reader.start()

    def wait(self, on_progress: Callable[[int, int, str], None] | None = None) -> float:
        """Wait until all is compiled.

        Args:
            on_progress: called with (modules done, modules in all, name) after each module.

        Returns:
            The seconds since the start.
        """
        n_open, n_done = len(self._processes), 0
        while n_open:
            name = self._done.get()
            if name is None:
                n_open -= 1
                continue
            n_done += 1
            if on_progress:
                on_progress(n_done, len(self.modules), name)
        if all(process.wait() == 0 for process in self._processes):
            _mark()
        return time.perf_counter() - self._started_s

    def stop(self) -> None:
        """End what still runs."""
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
            process.wait()
        for reader in self._readers:
            reader.join()

    def _read(self, process: subprocess.Popen[str]) -> None:
        if process.stdout is not None:
            with process.stdout as lines:
                for line in lines:
                    self._done.put(line.strip())
        self._done.put(None)


def kernel_modules() -> list[str]:
    """Return the names of the modules that hold kernels or what they need."""
    spec = find_spec("viking_kernels")
    folders = spec.submodule_search_locations if spec else None
    return sorted(path.stem for folder in folders or () for path in Path(folder).glob("[!_]*.py"))


def is_compiled() -> bool:
    """Return whether an earlier compilation of these very sources was completed; true where nothing is compiled."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return True
    folder = _cache_folder()
    return folder is None or (folder / _MARKER).exists()


@contextmanager
def compiling() -> Iterator[Compilation | None]:
    """Compile in the background while the block runs; None when all is compiled."""
    if is_compiled():
        yield None
        return
    compilation = Compilation()
    try:
        yield compilation
    finally:
        compilation.stop()


def ensure_compiled() -> None:
    """Compile what is not compiled, with progress on stderr."""
    with compiling() as compilation:
        if compilation is None:
            return
        with progress_bar() as progress:
            task = progress.add_task("compiling the kernels (once)", total=len(compilation.modules))
            compilation.wait(lambda n, total, _: progress.update(task, completed=n, total=total))


def warm_up() -> None:
    """Compile the kernels, and say how long it took."""
    folder = _cache_folder()
    if folder is None:
        err.print("There is no writable cache folder: every process compiles for itself. Set VIKING_CACHE_DIR to one.")
        return
    was_compiled = is_compiled()
    started_s = time.perf_counter()
    ensure_compiled()
    seconds = time.perf_counter() - started_s
    did = "are compiled already" if was_compiled else f"were compiled in {seconds:.1f} s"
    out.print(f"The kernels {did}: {folder}", soft_wrap=True)


def _start(names: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - the names are those of files of this package
        [sys.executable, "-c", _CODE, *names],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _cache_folder() -> Path | None:
    from viking_kernels import _jit

    folder = _jit._CACHE_FOLDER  # noqa: SLF001 - it is decided there, once
    return Path(folder) if folder else None


def _mark() -> None:
    folder = _cache_folder()
    if folder is not None:
        with suppress(OSError):
            (folder / _MARKER).touch()
