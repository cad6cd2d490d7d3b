"""The one place that turns a Python function into a kernel: flags, array types, and a cache that sees every edit."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

#: No `nnan`, no `ninf`: NaN marks "no score" and must survive the optimiser.
FAST_MATH = {"contract", "reassoc", "nsz", "arcp"}

IS_COMPILED = not numba.config.DISABLE_JIT

#: Whether the types of all arguments are checked at each call.
IS_CHECKED = os.environ.get("VIKING_CHECK_KERNELS") == "1"

#: Read-only C-contiguous arrays: such a signature takes writable arrays too, a writable one refuses snapshots.
RO_F32_1D = types.Array(types.float32, 1, "C", readonly=True)
RO_F32_2D = types.Array(types.float32, 2, "C", readonly=True)
RO_I8_2D = types.Array(types.int8, 2, "C", readonly=True)
RO_U16_2D = types.Array(types.uint16, 2, "C", readonly=True)
RO_I32_1D = types.Array(types.int32, 1, "C", readonly=True)
RO_I64_1D = types.Array(types.int64, 1, "C", readonly=True)
RO_U8_1D = types.Array(types.uint8, 1, "C", readonly=True)
F32_1D = types.Array(types.float32, 1, "C")
F32_2D = types.Array(types.float32, 2, "C")
I8_2D = types.Array(types.int8, 2, "C")
I32_1D = types.Array(types.int32, 1, "C")
I32_2D = types.Array(types.int32, 2, "C")
I64_1D = types.Array(types.int64, 1, "C")
I64_2D = types.Array(types.int64, 2, "C")
U8_1D = types.Array(types.uint8, 1, "C")
F32 = types.float32
F64 = types.float64
I32 = types.int32
I64 = types.int64
U8 = types.uint8
NONE = types.none

#: Kernels allocate nothing (`_nrt`: one that does fails to compile), so no array is reference-counted in them either.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": FAST_MATH,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}

#: Types of rows that kernels take besides the one in their signatures, see `offer_instead`.
_alternatives: dict[types.Type, types.Type] = {}
_others: list[Callable[[], None]] = []
_compiling_other = threading.Lock()
#: Of a value in usual rows, float32.
_USUAL_BYTES = 4

#: How many kernels were compiled in memory because the cache could not be read or written.
cache_misses = 0


def tuple_type(cls: type, **fields: types.Type) -> types.Type:
    """Return the numba type of a NamedTuple class whose fields have the given types, in the class's order."""
    return types.BaseTuple.from_types([fields[name] for name in cls._fields], cls)  # type: ignore[attr-defined]


def source_hash() -> str:
    """Return a hash of all kernel sources and of numba's version.

    Numba's own cache does not notice an edit in a called function, so each state of the sources has its own folder.
    """
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _cache_folder() -> str:
    """Return a writable folder for compiled kernels; empty when there is none (they are compiled in memory then)."""
    base = os.environ.get("VIKING_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    candidates = [Path(base)] if base else []
    if not base:
        home = os.environ.get("HOME")
        cache = os.environ.get("XDG_CACHE_HOME") or (Path(home) / ".cache" if home else None)
        candidates = [Path(cache) / "viking-rpc"] if cache else []
    for candidate in candidates:
        folder = candidate / f"kernels-{source_hash()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return str(folder)
        except OSError:
            logger.warning("kernel_cache_unwritable folder=%s", folder)
    return ""


_CACHE_FOLDER = _cache_folder() if IS_COMPILED else ""


def kernel(signature: types.Type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function ahead of its first call, for one explicit signature.

    A cache that cannot be used (read-only install, no HOME, damaged file, a race with another process) costs time,
    never the answer: damaged files are written anew, and without a cache the kernel is compiled in memory and counted
    in `cache_misses`.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        chosen_by = [i for i, argument in enumerate(signature.args) if argument in _alternatives]
        if not chosen_by or not IS_COMPILED:
            return _compiled(function, signature)
        return _by_rows(function, signature, chosen_by[0])

    return decorate


def offer_instead(usual: types.Type, other: types.Type) -> None:
    """Let kernels that take one type of rows take another one too; all are compiled for it when it first comes."""
    _alternatives[usual] = other


def _by_rows(function: Callable[..., Any], signature: types.Type, at: int) -> Callable[..., Any]:
    """Return what calls the kernel that is compiled for the vectors at hand: the usual ones at once, others later."""
    arguments = list(signature.args)  # type: ignore[attr-defined]
    arguments[at] = _alternatives[arguments[at]]
    other = signature.return_type(*arguments)  # type: ignore[attr-defined]
    usual_entry = _compiled(function, signature)
    other_entry: list[Callable[..., Any]] = []

    def compile_other() -> None:
        if not other_entry:
            other_entry.append(_compiled(function, other))

    @functools.wraps(function)
    def call(*values: Any) -> Any:
        if values[at].vectors.itemsize == _USUAL_BYTES:
            return usual_entry(*values)
        if not other_entry:
            with _compiling_other:  # two threads may ask at once
                for compile_one in _others:  # all of them now, rather than some in the middle of a later query
                    compile_one()
        return other_entry[0](*values)

    _others.append(compile_other)
    return call


def _compiled(function: Callable[..., Any], signature: types.Type) -> Callable[..., Any]:
    """Compile a function, or take it from the cache."""
    global cache_misses  # noqa: PLW0603 - the one counter of this module
    for _ in range(2 if _CACHE_FOLDER else 0):
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = _CACHE_FOLDER
        try:
            return _entry(numba.njit(signature, cache=True, **_OPTIONS)(function))
        except Exception as error:  # noqa: BLE001 - whatever a broken cache raises; the compile below is the judge
            logger.warning("kernel_cache_unusable kernel=%s error=%r", function.__name__, error)
            _discard(function.__name__)
        finally:
            numba.config.CACHE_DIR = before
    if IS_COMPILED:
        cache_misses += 1
    return _entry(numba.njit(signature, **_OPTIONS)(function))


def _entry(kernel_: Any) -> Callable[..., Any]:
    """Return what callers call: the compiled function itself, which saves numba's look at each argument's type.

    Measured, that look costs 8 us a call for groups of arrays, more than many a walk. The compiled function only sees
    a wrong number of dimensions or a wrong size of elements, so tests ask for the look (`VIKING_CHECK_KERNELS=1`).
    """
    if not IS_COMPILED or IS_CHECKED:
        return kernel_  # type: ignore[no-any-return]
    [overload] = kernel_.overloads.values()
    return overload.entry_point  # type: ignore[no-any-return]


def _discard(name: str) -> None:
    """Remove what the cache holds of a kernel, as far as that can be done."""
    with contextlib.suppress(OSError):
        for path in Path(_CACHE_FOLDER).glob(f"**/*.{name}-*.nb?"):
            path.unlink(missing_ok=True)


@intrinsic  # type: ignore[misc]
def _widen(typing_context: Any, value: types.Type) -> Any:
    del typing_context
    plain = types.unliteral(value)  # type: ignore[no-untyped-call]
    if plain == F32:
        return F32(F32), lambda context, builder, signature, arguments: arguments[0]  # noqa: ARG005

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        word = ir.IntType(32)
        bits = builder.shl(builder.zext(arguments[0], word), ir.Constant(word, 16))
        return builder.bitcast(bits, ir.FloatType())

    return F32(types.uint16), generate


def _widen_plainly(value: Any) -> Any:
    if value.dtype != np.uint16:
        return value
    return np.array(int(value) << 16, np.uint32).view(np.float32)[()]


#: In kernels: a value of a row as float32; one of a bfloat16 row is uint16, and gets its lower 16 bits back as zeros.
widen = _widen if IS_COMPILED else _widen_plainly


def device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that only kernels call; it is compiled into each of them, without an entry from Python.

    Integers are passed as int64 and constants as their types: else numba compiles a copy for each mix of widths.
    """
    return _device(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as `device` does, and let it be part of its caller: a call passes each array in seven words.

    Measured, a call that passes all groups of arrays costs as much as the dot product of a row.
    """
    return _device(function, forceinline=True)


def _device(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Mark a function that kernels call."""
    dispatcher = numba.njit(no_cpython_wrapper=True, **_OPTIONS, **options)(function)
    if IS_COMPILED:
        specialised = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: specialised(tuple(map(_widened, args)), kws)
    return dispatcher  # type: ignore[no-any-return]


def _widened(argument: types.Type) -> types.Type:
    """Return the type that stands for an argument's type between device functions."""
    plain = types.unliteral(argument)  # type: ignore[no-untyped-call]
    return I64 if isinstance(plain, (types.Integer, types.Boolean)) else plain
