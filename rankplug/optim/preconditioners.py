"""Preconditioners for Newton-CG: cheap approximate inverses of ``I + C H``.

H is the Hessian of the loss. What is known of it (its diagonal, or an estimate of all of it
from a sample of the data) does not depend on C, so one estimate serves a whole path of C. It is
made at the loss's current point when first needed, and again once it has become too coarse.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from rankplug.exceptions import ParameterError
from rankplug.optim.cholesky import Factor, factorise
from rankplug.optim.newton_cg import LinearLoss, Operator

__all__ = ["Cholesky", "Diagonal", "Identity", "PreconditionerName", "make_preconditioner"]

Vector: TypeAlias = NDArray[np.float64]
PreconditionerName: TypeAlias = Literal["auto", "cholesky", "diagonal", "none"]

_LARGEST_CHOLESKY = 2000
_COARSE = 3


class PreconditionedLoss(LinearLoss, Protocol):
    """A loss that can estimate its Hessian."""

    @property
    def n_columns(self) -> int:
        """Length of a weight vector."""

    @property
    def has_gram(self) -> bool:
        """Whether `hessian_gram` can be asked for."""

    def hessian_diagonal(self) -> Vector:
        """Diagonal of the Hessian at the current point, or close to it."""

    def hessian_gram(self) -> NDArray[np.float64]:
        """The Hessian at the current point, estimated from a sample of the data."""


class Identity:
    """No preconditioning."""

    def at(self, C: float) -> Operator:
        """The identity."""
        return lambda r: r

    def observe(self, n_products: int) -> None:
        """Do nothing."""


class Diagonal:
    """The inverse of ``1 + C diag(H)``."""

    def __init__(self, loss: PreconditionedLoss) -> None:
        self._loss = loss
        self._diagonal: Vector | None = None

    def at(self, C: float) -> Operator:
        """The approximate inverse for this C."""
        if self._diagonal is None:
            self._diagonal = self._loss.hessian_diagonal()
        scale = 1.0 + C * np.maximum(self._diagonal, 0.0)
        return lambda r: r / scale

    def observe(self, n_products: int) -> None:
        """Be told how many products a direction took; too many ask for a new estimate."""
        if n_products > _COARSE:
            self._diagonal = None


class Cholesky:
    """The inverse of ``I + C G``, G the Hessian estimated from a sample of the data.

    A factorisation costs n_columns^3 / 3 for each C, less than an eigendecomposition that
    would serve all C for up to about 25 of them.
    """

    def __init__(self, loss: PreconditionedLoss) -> None:
        self._loss = loss
        self._gram: NDArray[np.float64] | None = None
        self._factor: tuple[float, Factor] | None = None

    def at(self, C: float) -> Operator:
        """The approximate inverse for this C."""
        if self._gram is None:
            self._gram = self._loss.hessian_gram()
            self._factor = None
        if self._factor is None or self._factor[0] != C:
            matrix = C * self._gram
            matrix[np.diag_indices_from(matrix)] += 1.0
            self._factor = C, factorise(matrix)
        factor = self._factor[1]
        return lambda r: np.asarray(linalg.cho_solve(factor, r, check_finite=False))

    def observe(self, n_products: int) -> None:
        """Be told how many products a direction took; too many ask for a new estimate."""
        if n_products > _COARSE:
            self._gram = None


def make_preconditioner(
    name: PreconditionerName, loss: PreconditionedLoss
) -> Identity | Diagonal | Cholesky:
    """A preconditioner by name; "auto" is "cholesky" up to 2,000 columns, else "diagonal".

    Raises
    ------
    ParameterError
        If "cholesky" is asked of a loss that cannot estimate its whole Hessian.
    """
    if name == "cholesky" and not loss.has_gram:
        raise ParameterError(
            "preconditioner='cholesky' is not for label ranking: use 'diagonal' or 'auto'"
        )
    if name == "none":
        return Identity()
    if name == "cholesky" or (
        name == "auto" and loss.has_gram and loss.n_columns <= _LARGEST_CHOLESKY
    ):
        return Cholesky(loss)
    return Diagonal(loss)
