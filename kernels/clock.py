"""Time inside a kernel: the processor's cycle counter, which the caller scales to wall time."""

from __future__ import annotations

import time
from typing import Any

from numba import types
from numba.extending import intrinsic

from viking_kernels._jit import IS_COMPILED

if IS_COMPILED:

    @intrinsic
    def cycles(_typing_context: Any) -> Any:
        """Return the cycle counter as int64; one instruction, cacheable, unlike a call to a C library's clock."""

        def codegen(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            from llvmlite import ir

            counter = builder.module.declare_intrinsic("llvm.readcyclecounter", (), ir.FunctionType(ir.IntType(64), ()))
            return builder.call(counter, ())

        return types.int64(), codegen

else:

    def cycles() -> int:
        """Return nanoseconds, the cycle counter of uncompiled kernels."""
        return time.perf_counter_ns()
