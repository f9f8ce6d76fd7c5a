"""Preconditioners for Newton-CG: cheap approximate inverses of ``I + C H``.

H is the Hessian of the loss. What is known of it (its diagonal, or an estimate of all of it
from a sample of the data, and its products with some directions) does not depend on C, so it
serves a whole path of C. An estimate is made at the loss's current point when first needed, and
again once it has become too coarse.

References
----------
.. [1] Morales and Nocedal, "Automatic preconditioning by limited memory quasi-Newton updating",
   SIAM Journal on Optimization 10 (2000), for `Corrected`. Departures: the products of several
   short directions count, and H is updated instead of ``I + C H``.
.. [2] Hsia, Chiang and Lin, "Preconditioned conjugate gradient methods in truncated Newton
   frameworks for large-scale linear classification", ACML 2018, for a diagonal that is mixed.
.. [3] Frangella, Tropp and Udell, "Randomized Nystrom preconditioning", SIAM Journal on Matrix
   Analysis and Applications 44 (2023), for `Nystrom`. Departures: what the approximation leaves of
   the diagonal takes the place of a multiple of I, and it is made only where it pays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from rankplug.exceptions import ParameterError
from rankplug.optim.bracket import Vector
from rankplug.optim.linear_systems import Factor, factorise
from rankplug.optim.newton_cg import LinearLoss, Operator, Preconditioner, require_finite
from rankplug.optim.vectors import inner, norm2
from rankplug.system.interruption import raise_if_late

PreconditionerName: TypeAlias = Literal["auto", "cholesky", "nystrom", "diagonal", "none"]

_LARGEST_CHOLESKY = 2000
"""Columns of dense features: a factor takes their cube / 3 operations, 32 MB, at each C. In
general, of their square over the elements that a row holds: leaves of 30 trees with 64 features,
1,549 columns, take 70 times as long with a factor as without."""
_COARSE = 3  # products for one direction beyond which the estimate is made anew
_OWN = 0.7  # share of its own element in a diagonal that is mixed with its mean
_RANK = 48  # of Nystrom's approximation; its price grows with it
_LEAST_RANK = 16  # lower ones save less than they cost
_WORTH_RANKS = 2  # products for each one that the approximation takes, before it is made
_NEGLIGIBLE = 1e-10  # share of the largest eigenvalue; what is below it may be rounding
_MOST_PAIRS = 16  # each adds 4 n_columns operations to an application
_MOST_ELEMENTS = 2**23  # of all v: 64 MB, and as much of their products
_TINY = float(np.finfo(np.float64).tiny)  # below it digits are lost


class PreconditionedLoss(LinearLoss, Protocol):
    """A loss that can estimate its Hessian."""

    @property
    def n_rows(self) -> int:
        """Rows of the features."""

    @property
    def n_elements(self) -> int:
        """Elements of the features that a product with them reads."""

    @property
    def has_gram(self) -> bool:
        """Whether `hessian_gram` can be asked for."""

    def hessian_diagonal(self) -> Vector:
        """Diagonal of the Hessian at the current point, or close to it."""

    def hessian_gram(self) -> NDArray[np.float64]:
        """Lower half of the Hessian at the current point, estimated from a sample of the data."""


class Identity:
    """No preconditioning."""

    def at(self, C: float) -> Operator:
        """The identity."""
        return lambda r: r

    def observe(self, v: Vector, product: Vector) -> None:
        """Do nothing."""

    def forget(self) -> None:
        """Do nothing."""


class _Estimate:
    """What is known of the Hessian at the current point, made again when it has become coarse."""

    def __init__(self, make: Callable[[], NDArray[np.float64]]) -> None:
        self._make = make
        self._made: NDArray[np.float64] | None = None
        self._n_products = 0

    def observe(self, v: Vector, product: Vector) -> None:
        """Count the product; a direction of too many asks for a new estimate."""
        self._n_products += 1

    def forget(self) -> None:
        """Do nothing: the estimate is made anew where it needs many products."""

    def _current(self) -> NDArray[np.float64]:
        """The estimate; a new one if there were many products since it was last asked for."""
        if self._made is None or self._n_products > _COARSE:
            self._made = self._make()
        self._n_products = 0
        return self._made


class Diagonal(_Estimate):
    """The inverse of ``1 + C d``, d a mean of ``diag(H)`` and of the number that it averages.

    By itself the diagonal takes twice the products of none at all on some texts; mixed with a
    multiple of I [2]_ it takes little more than none there, and keeps its gains elsewhere.
    """

    def __init__(self, loss: PreconditionedLoss) -> None:
        super().__init__(loss.hessian_diagonal)

    def at(self, C: float) -> Operator:
        """The approximate inverse for this C."""
        scale = 1.0 + C * _mix(self._current())
        return lambda r: r / scale


class Nystrom(Diagonal):
    """`Diagonal`, and once many products were needed, an approximation of the whole Hessian.

        H ~ B B' + diag(r),   B B' = Y (S' Y)^-1 Y',   Y = H S,   r >= 0,

    from the products of H with a few random directions S [3]_; r is what B B' leaves of the
    diagonal, mixed as in `Diagonal`. With ``D = I + C diag(r)`` the inverse of ``D + C B B'`` is
    ``D^-1 - C D^-1 B (I + C B' D^-1 B)^-1 B' D^-1``, so an application takes 4 n_columns
    operations for each direction. On leaves of trees, whose columns resemble those of the tree
    before, it halves the products of a path of C; on texts `Diagonal` seldom needs as many as its
    price, and the approximation is not made.

    It is made once, from products that count as others do, and outlives changes of C and of the
    point: made anew it saved no more than it cost.
    """

    _low_rank: tuple[NDArray[np.float64], Vector] | None = None  # B and r
    _inverse: tuple[float, Operator] | None = None  # of the last C

    def __init__(self, loss: PreconditionedLoss, rank: int) -> None:
        super().__init__(loss)
        self._loss, self._rank, self._n_observed = loss, rank, 0

    def observe(self, v: Vector, product: Vector) -> None:
        """Count the product."""
        super().observe(v, product)
        self._n_observed += 1

    def at(self, C: float) -> Operator:
        """The approximate inverse for this C."""
        if self._n_observed < _WORTH_RANKS * self._rank:
            return super().at(C)
        if self._low_rank is None:
            self._low_rank = self._approximate()
        if self._inverse is None or self._inverse[0] != C:
            self._inverse = C, _invert_low_rank(*self._low_rank, C)
        return self._inverse[1]

    def _approximate(self) -> tuple[NDArray[np.float64], Vector]:
        shape = self._loss.n_columns, self._rank
        directions = np.asfortranarray(np.random.default_rng(0).normal(size=shape))
        products = np.empty_like(directions)
        for v, product in zip(directions.T, products.T, strict=True):
            raise_if_late()
            product[:] = self._loss.hessian_product(v)
        require_finite(norm2(products.ravel()))
        values, vectors = linalg.eigh(directions.T @ products)  # uses one half of it
        known = values > _NEGLIGIBLE * max(values[-1], _TINY)
        low_rank = products @ (vectors[:, known] / np.sqrt(values[known]))
        rest = self._loss.hessian_diagonal() - np.einsum("ij,ij->i", low_rank, low_rank)
        return low_rank, _mix(rest)


def _mix(diagonal: Vector) -> Vector:
    """Elements mixed with their mean, negative ones (of rounding errors) as 0."""
    diagonal = np.maximum(diagonal, 0.0)
    mixed: Vector = _OWN * diagonal + (1.0 - _OWN) * diagonal.mean()
    return mixed


def _invert_low_rank(B: NDArray[np.float64], rest: Vector, C: float) -> Operator:
    """The inverse of ``I + C diag(rest) + C B B'``."""
    scale = 1.0 + C * rest
    inner_matrix = C * (B.T @ (B / scale[:, None]))
    inner_matrix[np.diag_indices_from(inner_matrix)] += 1.0
    factor = linalg.cho_factor(inner_matrix, lower=True)

    def apply(r: Vector) -> Vector:
        r = r / scale
        along = linalg.cho_solve(factor, B.T @ r, check_finite=False)
        return np.asarray(r - C * (B @ along) / scale)

    return apply


class Cholesky(_Estimate):
    """The inverse of ``I + C G``, G the Hessian estimated from a sample of the data.

    A factorisation costs n_columns^3 / 3 for each C, less than an eigendecomposition that
    would serve all C for up to about 25 of them.
    """

    def __init__(self, loss: PreconditionedLoss) -> None:
        super().__init__(loss.hessian_gram)
        self._factorised: tuple[NDArray[np.float64], float, Factor] | None = None

    def at(self, C: float) -> Operator:
        """The approximate inverse for this C."""
        factor = self._factor(self._current(), C)
        return lambda r: np.asarray(linalg.cho_solve(factor, r, check_finite=False))

    def _factor(self, gram: NDArray[np.float64], C: float) -> Factor:
        if self._factorised is not None:
            of_gram, of_C, factor = self._factorised
            if of_gram is gram and of_C == C:
                return factor
        matrix = C * gram
        matrix[np.diag_indices_from(matrix)] += 1.0
        self._factorised = gram, C, factorise(matrix)
        return self._factorised[-1]


class Corrected:
    """Another preconditioner, made exact along the directions whose products are known.

    With M the other one's matrix, each pair ``(v, y)``, ``y = v + C H v``, is an update of BFGS,

        M <- M + y y' / y.v - M v v' M / v.M v

    the latest last; so the inverse costs 4 n_columns operations a pair. Products with H, not with
    ``I + C H``, are kept, and serve other C.

    Parameters
    ----------
    base : Preconditioner
        The other one.
    n_columns : int
        Length of a weight vector. 16 pairs are kept, fewer if they are long: evenly spaced ones
        of a direction that took more products, else those of the last directions.
    """

    _earlier: list[tuple[Vector, Vector]]  # of directions before the latest one
    _latest: list[tuple[Vector, Vector]]
    _n_products: int  # of the latest direction
    _stride: int  # of those that are kept of it

    def __init__(self, base: Preconditioner, n_columns: int) -> None:
        self._base = base
        self._most = min(_MOST_PAIRS, _MOST_ELEMENTS // n_columns)
        self.forget()

    def at(self, C: float) -> Operator:
        """The approximate inverse for this C."""
        base = self._base.at(C)
        long = self._n_products > self._most
        kept = self._latest if long else self._earlier + self._latest
        self._start_direction(kept[len(kept) - min(len(kept), self._most) :])
        pairs = [(v, v + C * product) for v, product in self._earlier]
        products = [(v, y, inner(v, y)) for v, y in pairs]
        # Products of tiny directions, which huge features have, underflow and hold nothing.
        known = [one for one in products if one[-1] > _TINY]
        return partial(_apply_corrections, base, known)

    def observe(self, v: Vector, product: Vector) -> None:
        """Keep the pair for the next direction, or every second, fourth, ... of many."""
        self._base.observe(v, product)
        if self._n_products % self._stride == 0:
            self._latest.append((v, product))
            if len(self._latest) > self._most:
                self._latest = self._latest[::2]
                self._stride *= 2
        self._n_products += 1

    def forget(self) -> None:
        """Drop all pairs."""
        self._start_direction([])

    def _start_direction(self, earlier: list[tuple[Vector, Vector]]) -> None:
        self._earlier = earlier
        self._latest, self._n_products, self._stride = [], 0, 1


def _apply_corrections(
    base: Operator, pairs: list[tuple[Vector, Vector, float]], r: Vector
) -> Vector:
    """The two loops of L-BFGS, with each pair's ``v, y, v.y``."""
    r, shares = r.copy(), []
    for v, y, v_y in reversed(pairs):
        share = inner(v, r) / v_y
        r -= share * y
        shares.append(share)
    z = base(r)
    for (v, y, v_y), share in zip(pairs, reversed(shares), strict=True):
        z += (share - inner(y, z) / v_y) * v
    return z


def make_preconditioner(name: PreconditionerName, loss: PreconditionedLoss) -> Preconditioner:
    """A preconditioner by name; all but "none" are corrected by known products.

    "auto" is "cholesky" up to 2,000 columns, and up to fewer where rows hold few elements, else
    "nystrom": sampled rows are made dense for a factor, whose price does not fall with that of the
    products. Where an application of "nystrom" would take longer than a product, it is "diagonal".

    Raises
    ------
    ParameterError
        If "cholesky" is asked of a loss that cannot estimate its whole Hessian.
    """
    n_columns = loss.n_columns
    if name == "cholesky" and not loss.has_gram:
        raise ParameterError(
            "preconditioner='cholesky' is not for label ranking: use 'diagonal' or 'auto'"
        )
    if name == "none":
        return Identity()
    if name == "auto":
        columns = n_columns**2 * loss.n_rows / max(loss.n_elements, 1)
        name = "cholesky" if loss.has_gram and columns <= _LARGEST_CHOLESKY else "nystrom"
    if name == "cholesky":
        return Corrected(Cholesky(loss), n_columns)
    rank = min(_RANK, n_columns, loss.n_elements // (2 * n_columns), _MOST_ELEMENTS // n_columns)
    if name == "nystrom" and rank >= _LEAST_RANK:
        return Corrected(Nystrom(loss, rank), n_columns)
    return Corrected(Diagonal(loss), n_columns)
