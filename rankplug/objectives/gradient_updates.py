"""`UpdatedGradient`: the gradient after a Newton step, by the Hessian products on the way."""

from __future__ import annotations

from rankplug.optim.vectors import norm2
from rankplug.shards import Vector


class UpdatedGradient:
    """``gradient + t H d``: the gradient after t times the direction d, as far as H is constant.

    The direction is the sum of ``step v`` over Hessian products ``H v``, so ``H d`` is known.

    Attributes
    ----------
    step : float
        t, the step last tried along the direction.
    size : float
        Of what rounding errors of the products since `start` are a part: the sum of
        ``|t step| |H| |v|``, |H| by the products seen.
    """

    def __init__(self) -> None:
        self._gradient: Vector | None = None
        self._along: Vector | None = None  # H d
        self._length = 0.0  # of the way that was added up to d
        self._product: Vector | None = None
        self._of_length = self._norm = 0.0  # |v| of the last product, and the largest |H v| / |v|
        self.step = self.size = 0.0

    def start(self, gradient: Vector) -> None:
        """At a point whose gradient was read from the features."""
        self._gradient, self._along, self.size = gradient, None, 0.0

    def go_on(self, gradient: Vector) -> None:
        """At the point after the step, by a gradient that was updated."""
        self._gradient, self._along = gradient, None
        self.size += abs(self.step) * self._length * self._norm

    def forget(self) -> None:
        """At a point, or on a way to one, that nothing is known of."""
        self._gradient = self._along = None

    def start_direction(self) -> bool:
        """The direction is 0. Whether the gradient along it will be known."""
        self._along, self._length = None, 0.0
        return self._gradient is not None

    def observe(self, v: Vector, product: Vector) -> None:
        """Be told H v."""
        self._product = product
        if self._gradient is not None:
            self._of_length = norm2(v)
            if self._of_length > 0.0:
                self._norm = max(self._norm, norm2(product) / self._of_length)

    def extend_direction(self, step: float) -> None:
        """Add `step` times the ``v`` of the last product."""
        if self._gradient is None or self._product is None:
            return
        self._length += abs(step) * self._of_length
        part = step * self._product
        self._along = part if self._along is None else self._along + part

    @property
    def at_step(self) -> Vector | None:
        """The gradient after the step, None if it is not known."""
        if self._gradient is None or self._along is None:
            return None
        return self._gradient + self.step * self._along
