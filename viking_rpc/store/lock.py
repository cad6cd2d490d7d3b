"""The lock of a data directory: one process at a time, and whoever comes second is told who holds it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from viking_rpc.errors import FailedPreconditionError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

LOCK_NAME = "viking.lock"


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a data directory; `address` is where it listens, empty when it does not."""

    pid: int
    host: str
    address: str
    started_us: int


class DataLock:
    """Holds a data directory until it is released or the process ends, however that ends: the kernel sees to it.

    The file stays; its text only says who holds the lock, the lock itself is the kernel's. A child that is spawned does
    not inherit it.
    """

    def __init__(self, descriptor: int, holder: Holder) -> None:
        """Use `acquire`."""
        self._descriptor: int | None = descriptor
        self._holder = holder

    @classmethod
    def acquire(cls, folder: Path, *, address: str = "") -> Self:
        """Take the lock of a data directory, which is made when it is missing.

        Raises:
            FailedPreconditionError: DATA_DIRECTORY_LOCKED with the holder's pid, host and address in the metadata;
                DATA_DIRECTORY_READ_ONLY; DATA_DIRECTORY_UNLOCKABLE on a file system without locks.
        """
        path = folder / LOCK_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _unusable(folder, "DATA_DIRECTORY_READ_ONLY", error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _read(descriptor)
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise _locked(folder, holder) from None
            raise _unusable(folder, "DATA_DIRECTORY_UNLOCKABLE", error) from error
        lock = cls(descriptor, Holder(os.getpid(), socket.gethostname(), address, time.time_ns() // 1000))
        lock.announce(address)
        return lock

    def announce(self, address: str) -> None:
        """Say where this process listens, once it knows."""
        if self._descriptor is None:
            return
        self._holder = Holder(self._holder.pid, self._holder.host, address, self._holder.started_us)
        text = json.dumps(asdict(self._holder)).encode()
        # What cannot be written (a full disk) costs the second process its explanation, not this one its lock.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, text, 0)

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._descriptor is None:
            return
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go."""
        self.release()


def holder_of(folder: Path) -> Holder | None:
    """Return who holds a data directory, None when nobody does; a holder that has not said so has the pid 0."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read(descriptor) or Holder(0, "an unknown host", "", 0)
    finally:
        os.close(descriptor)
    return None


def _read(descriptor: int) -> Holder | None:
    """Return what the holder wrote; None when it has not come to it yet."""
    try:
        return Holder(**json.loads(os.pread(descriptor, 4096, 0)))
    except (OSError, TypeError, ValueError):
        return None


def _locked(folder: Path, holder: Holder | None) -> FailedPreconditionError:
    facts = {"path": str(folder)}
    who = "another process"
    if holder is not None:
        facts |= {"pid": str(holder.pid), "host": holder.host, "address": holder.address}
        who = f"process {holder.pid} on {holder.host}" + (f", which serves {holder.address}" * bool(holder.address))
    return FailedPreconditionError("DATA_DIRECTORY_LOCKED", f"{folder} is in use by {who}", facts)


def _unusable(folder: Path, reason: str, error: OSError) -> FailedPreconditionError:
    return FailedPreconditionError(reason, f"{folder} cannot be locked ({error})", {"path": str(folder)})
