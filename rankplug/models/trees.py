"""`TreeModel`: sums of trees, whose leaves can be looked at and given new values."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Matrix
from rankplug.models.base import Model


class TreeModel(Model):
    """A model whose score is a sum over trees of the value of the leaf that a row falls into.

    Leaves are counted from 0 in each tree.
    """

    @property
    @abstractmethod
    def leaf_counts(self) -> NDArray[np.int64]:
        """Number of leaves of each tree, of shape (n_trees,)."""

    @property
    @abstractmethod
    def leaf_values(self) -> NDArray[np.float64]:
        """What each leaf adds to the score, of shape (sum of `leaf_counts`,)."""

    @abstractmethod
    def find_leaves(self, X: Matrix) -> NDArray[np.integer[Any]]:
        """The leaf of each row in each tree, of shape (n_samples, n_trees)."""

    @abstractmethod
    def with_leaf_values(self, values: NDArray[np.float64]) -> Self:
        """The same trees with other values of their leaves, and no constant beside them.

        Parameters
        ----------
        values : float64 ndarray of shape (sum of `leaf_counts`,)
            Of the leaves of the first tree, then of the second, ...
        """

    def centred(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Weights of leaves less the mean of their tree, and the sum of these means.

        The means change all scores alike, and without them small values lose fewer digits where
        leaves are float32.

        Parameters
        ----------
        weights : float64 ndarray of shape (sum of `leaf_counts`,)
        """
        counts = self.leaf_counts
        means = np.add.reduceat(weights, np.cumsum(counts) - counts) / counts
        return weights - np.repeat(means, counts), float(means.sum())

    def with_weights(self, weights: NDArray[np.float64]) -> tuple[Self, float]:
        """The same trees with `centred` weights as the values of their leaves, and the constant.

        Parameters
        ----------
        weights : float64 ndarray of shape (sum of `leaf_counts`,)

        Returns
        -------
        trees : TreeModel
        constant : float
            Added to their scores, these are the sums of the weights.
        """
        values, constant = self.centred(weights)
        return self.with_leaf_values(values), constant
