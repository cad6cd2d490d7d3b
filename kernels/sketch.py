"""Rows in a quarter of their size, which bound their scores from above: most rows need no closer look."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import F32_1D, I8_2D, NONE, RO_F32_2D, device, kernel
from viking_kernels.score import FILE_LEVEL

#: The greatest code; a row's greatest value has it.
_TOP = 127.0
#: Per dimension, what float32 sums may be off, in shares of the norms: four times half of float32's last digit, as the
#: sum that is bounded and the sum that bounds it are both rounded.
_ROUNDING = 2.0**-22
#: Absolute slack: what is lost where products are too small for float32.
_TINY = 1e-30
#: Rows and questions have unit length; far longer ones, whose products float32 may not hold, are always scored.
_MAX_NORM = 1e3


@kernel(NONE(RO_F32_2D, I8_2D, F32_1D, F32_1D))
def sketch_rows(vectors, code, scale, error):
    """Make the sketches of rows: each row is `scale * code` but for a rest whose length is at most `error`.

    Args:
        vectors: float32[n, dim], as the scan will read them (bfloat16 rows: decoded).
        code: int8[n, dim], written; -127 to 127.
        scale: float32[n], written.
        error: float32[n], written; room for the rounding of float32 sums is in it. Infinite: the sketch tells nothing.
    """
    n_dim = vectors.shape[1]
    for row in range(vectors.shape[0]):
        peak = 0.0
        square = 0.0
        for i in range(n_dim):
            value = float(vectors[row, i])
            peak = max(peak, abs(value))
            square += value * value
        norm = np.sqrt(square)
        step = np.float32(peak / _TOP)
        is_known = norm <= _MAX_NORM
        if not is_known:
            step = np.float32(0.0)
        inverse = 1.0 / float(step) if step > 0.0 else 0.0
        rest = 0.0
        for i in range(n_dim):
            value = float(vectors[row, i]) if is_known else 0.0
            near = min(max(np.floor(value * inverse + 0.5), -_TOP), _TOP)
            code[row, i] = np.int8(near)
            missing = value - float(step) * near
            rest += missing * missing
        scale[row] = step
        slack = (np.sqrt(rest) + norm * _ROUNDING * (n_dim + 16)) * (1.0 + 1e-6)
        error[row] = np.float32(slack if is_known else np.inf)


@device
def norm_of(vector):
    """Return the length of a question's vector, float64; infinite where no bound holds."""
    square = 0.0
    for i in range(vector.shape[0]):
        square += float(vector[i]) * float(vector[i])
    norm = np.sqrt(square)
    return norm if norm <= _MAX_NORM else np.inf


@device
def dense_bound(sketches, row, vector, norm):
    """Return what the dot product of a question's vector and a row with a sketch is not above, float64; see `dot`.

    With x = scale * code + rest: q.x <= q.(scale * code) + |q| * |rest|, by Cauchy and Schwarz.

    Args:
        norm: `norm_of(vector)`.
    """
    i = row - sketches.first
    slack = norm * float(sketches.error[i])
    if not slack < np.inf:  # or NaN: nothing times infinity
        return np.inf
    total = np.float32(0.0)
    for j in range(vector.shape[0]):
        total += np.float32(sketches.code[i, j]) * vector[j]
    return float(sketches.scale[i]) * float(total) + slack


@device
def lexical_ceiling(question):
    """Return what no row's lexical score is above, float32; a row's weight of a term is below 1."""
    total = np.float32(0.0)
    for i in range(question.weight.shape[0]):
        total += question.weight[i]
    if question.saturation > 0.0:
        return total / (total + np.float32(question.saturation))
    return total


@device
def own_bound(rows, row, question, dense, lexical):
    """Return what the own score of a row is not above, float64, given bounds of its parts; see `score_row`."""
    is_file = rows.level[row] == FILE_LEVEL
    weight = np.float32(question.lexical_weight) if is_file else np.float32(question.directory_weight)
    if weight == 0.0:
        return dense + _TINY
    rounded_up = 1.0 + _ROUNDING * (question.term.shape[0] + 16)
    return float(np.float32(1.0) - weight) * dense + float(weight) * float(lexical) * rounded_up + _TINY
