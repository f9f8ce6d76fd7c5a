"""Inner products and norms that one thread sums, in an order that depends on the length alone.

BLAS shares vectors of more than about 10,000 elements among threads, which costs more than it saves
at the lengths that weights have: each product waits until all threads have come, and where cores
are busy a solve took twenty times as long. Shorter ones it sums itself, so longer ones come to it
in pieces.
"""

from __future__ import annotations

import math

from rankplug.optim.bracket import Vector

_PIECE = 8192  # elements: fewer than BLAS has threads for, enough to hide the call


def inner(a: Vector, b: Vector) -> float:
    """``a . b``."""
    n = len(a)
    if n <= _PIECE:
        return float(a @ b)
    ends = range(_PIECE, n + _PIECE, _PIECE)
    return sum(float(a[end - _PIECE : end] @ b[end - _PIECE : end]) for end in ends)


def norm2(a: Vector) -> float:
    """``|a|``."""
    return math.sqrt(inner(a, a))
