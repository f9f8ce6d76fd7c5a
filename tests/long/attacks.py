"""Hostile input: data, and what happens to them, as one table that the tests share.

An attack changes good data. Its outcome is one of

* `SAME`: as good as the plain data, so the scores are those of the plain data;
* `WORKS`: another problem, whose answer an oracle checks;
* `EITHER`: `WORKS`, or refused with one clear error where the numbers leave what floating point
  can hold, which depends on the solver;
* `Refused(message)`: one clear error that says this.
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

import rankplug
from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import ConvergenceWarning, DataWarning, RankplugError

SAME, WORKS, EITHER = "same", "works", "either"


@dataclass(frozen=True)
class Refused:
    """One error of rankplug whose message matches a pattern."""

    message: str


@dataclass(frozen=True, eq=False)
class Inputs:
    """Arguments of `from_arrays`; label-ranking data have no qid, and y of two dimensions."""

    X: Any
    y: Any
    qid: Any = None
    sample_weight: Any = None

    def data(self):
        if self.qid is None and np.ndim(self.y) == 2:
            return LabelRankingData.from_arrays(self.X, self.y)
        return RankingData.from_arrays(self.X, self.y, self.qid, sample_weight=self.sample_weight)

    def but(self, **changes):
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class Attack:
    """A change of good inputs, and what must come of it."""

    name: str
    change: Callable[[Inputs], Inputs]
    outcome: Any

    def __str__(self):
        return self.name


def documents():
    """24 documents of 6 queries; the features are small multiples of 1/4, exact in float16."""
    rng = np.random.default_rng(0)
    X = np.round(4.0 * rng.normal(size=(24, 4))) / 4.0
    X[rng.random(X.shape) < 0.25] = 0.0
    utility = X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * rng.normal(size=24)
    return Inputs(X, np.clip(np.round(utility) + 1.0, 0.0, 2.0), np.repeat(np.arange(6), 4))


def instances():
    """12 instances with three graded labels."""
    rng = np.random.default_rng(1)
    X = np.round(4.0 * rng.normal(size=(12, 4))) / 4.0
    X[rng.random(X.shape) < 0.25] = 0.0
    Y = X @ rng.normal(size=(4, 3)) + 0.3 * rng.normal(size=(12, 3))
    return Inputs(X, np.clip(np.round(Y) + 1.0, 0.0, 2.0))


BASE = {"query-document": documents, "label-ranking": instances}


def quietly(call, *args, **kwargs):
    """The result; any warning but those of convergence, of an optimum at 0, and of grades that a
    solver does not tell apart is a fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", ".*the optimum is w = 0", UserWarning)
        warnings.filterwarnings("ignore", ".*which ranks nothing", UserWarning)
        warnings.filterwarnings("ignore", ".*relevance has more than two grades", DataWarning)
        warnings.filterwarnings("ignore", "X has feature names, but", UserWarning)
        return call(*args, **kwargs)


def refusal(call, *args, **kwargs):
    """The error of rankplug's that the call ends in, None if there is none."""
    try:
        quietly(call, *args, **kwargs)
    except RankplugError as error:
        return error
    return None


def assert_refused(message, call, *args, **kwargs):
    """The call ends in one error of rankplug, without a warning of NumPy's before."""
    error = refusal(call, *args, **kwargs)
    assert error is not None, f"not refused: {message}"
    assert re.search(message, str(error), re.IGNORECASE), f"{message!r} is not in: {error}"
    assert len(str(error)) < 1000, f"too long a message: {error}"


def available_solvers():
    """The solvers that can be used here, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [info for info in rankplug.list_solvers() if info.available]


def cheap(name, **params):
    """A solver that takes milliseconds for data as small as these."""
    solver = rankplug.make_solver(name)
    known = solver.get_params(deep=False)
    usual = {"n_threads": 1, "n_estimators": 3, "min_child_samples": 1, "min_samples_leaf": 1}
    chosen = {key: value for key, value in usual.items() if key in known}
    return solver.set_params(**{**chosen, **params})


# What happens to the data of a solver


def _features(change):
    return lambda inputs: inputs.but(X=change(np.asarray(inputs.X)))


def _relevance(change):
    return lambda inputs: inputs.but(y=change(np.asarray(inputs.y)))


def _column(value):
    def change(X):
        X = X.copy()
        X[:, 0] = value
        return X

    return change


def _more_column(value):
    return lambda X: np.column_stack((X, np.full(len(X), value)))


def _permuted(inputs):
    order = np.random.default_rng(2).permutation(len(inputs.X))
    # The first rows are scored and compared, so they go with what they are.
    return inputs.but(
        X=inputs.X[order], y=inputs.y[order], qid=None if inputs.qid is None else inputs.qid[order]
    )


def _silent(inputs):
    """With rows that prefer nothing: one-row queries, one-level queries, labels all alike."""
    X = np.vstack((inputs.X, 3.0 * inputs.X[:5]))
    if inputs.qid is None:
        silent = np.full((5, inputs.y.shape[1]), 2.0)
        silent[:2] = np.nan
        silent[2, 1:] = np.nan
        return inputs.but(X=X, y=np.vstack((inputs.y, silent)))
    return inputs.but(
        X=X,
        y=np.append(inputs.y, [1.0, 7.0, 0.0, 2.0, 2.0]),
        qid=np.append(inputs.qid, [100, 101, 102, 103, 103]),
    )


def _repeated(inputs):
    twice = np.repeat(np.arange(len(inputs.X)), 2)
    qid = None if inputs.qid is None else inputs.qid[twice]
    return inputs.but(X=inputs.X[twice], y=inputs.y[twice], qid=qid)


def _smallest(inputs):
    """Two rows, or one instance."""
    if inputs.qid is None:
        return inputs.but(X=inputs.X[:1], y=np.array([[0.0, 1.0, 2.0]]))
    return inputs.but(X=inputs.X[:2], y=np.array([0.0, 1.0]), qid=inputs.qid[:2])


def _one_row(inputs):
    return inputs.but(
        X=inputs.X[:1],
        y=np.ones((1, 3)) if inputs.qid is None else [1.0],
        qid=None if inputs.qid is None else inputs.qid[:1],
    )


def _wide(inputs):
    X = np.random.default_rng(3).normal(size=(len(inputs.X), 300))
    return inputs.but(X=X)


def _wide_sparse(inputs):
    """Thousands of columns of which almost all are empty."""
    n = len(inputs.X)
    parts = (np.ones(n), np.arange(n) * 100, np.arange(n + 1))
    return inputs.but(X=sparse.csr_array(parts, shape=(n, 100 * n)))


def _scaled(factor):
    return _features(lambda X: X * factor)


DATA_ATTACKS = [
    Attack("plain", lambda inputs: inputs, SAME),
    Attack("permuted rows", _permuted, SAME),
    Attack("rows that prefer nothing", _silent, SAME),
    Attack("zero column more", _features(_more_column(0.0)), SAME),
    Attack("-0.0 in X", _features(lambda X: np.where(X == 0, -0.0, X)), SAME),
    Attack("-0.0 in y", _relevance(lambda y: np.where(y == 0, -0.0, y)), SAME),
    Attack("sparse", _features(sparse.csr_array), SAME),
    Attack("constant column more", _features(_more_column(3.0)), WORKS),
    Attack("zero column", _features(_column(0.0)), WORKS),
    Attack("constant column", _features(_column(3.0)), WORKS),
    Attack("all zero", _features(lambda X: 0.0 * X), EITHER),
    Attack("all zero and sparse", _features(lambda X: sparse.csr_array(0.0 * X)), EITHER),
    Attack("all constant", _features(lambda X: 0.0 * X + 1.0), EITHER),
    Attack("identical rows", _features(lambda X: np.tile(X[:1], (len(X), 1))), EITHER),
    Attack(
        "empty sparse rows",
        _features(lambda X: sparse.csr_array(np.where(np.arange(len(X))[:, None] % 2, X, 0.0))),
        WORKS,
    ),
    Attack("duplicate rows", _repeated, WORKS),
    Attack("smallest", _smallest, WORKS),
    Attack("one column", _features(lambda X: X[:, :1].copy()), WORKS),
    Attack("d >> n", _wide, WORKS),
    Attack("d >> n, sparse", _wide_sparse, WORKS),
    Attack("one row", _one_row, Refused("no preference pair")),
    Attack("one level", _relevance(lambda y: 0.0 * y), Refused("no preference pair")),
    *(
        Attack(f"X times {factor:g}", _scaled(factor), EITHER)
        for factor in (1e-310, 1e-160, 1e-30, 1e30, 1e100, 1e150, 1e200)
    ),
    Attack("X of 1e308", _features(lambda X: np.sign(X) * 1e308), EITHER),
    Attack("sparse X of 1e308", _features(lambda X: sparse.csr_array(np.sign(X) * 1e308)), EITHER),
    Attack(
        "float32 near its limit",
        _features(lambda X: np.float32(3e38) * np.sign(X).astype("f4")),
        EITHER,
    ),
    Attack("float32 denormals", _features(lambda X: (X * 1e-40).astype("f4")), EITHER),
    Attack("column of 1e308", _features(_column(1e308)), EITHER),
    Attack("column of 1e16", _features(_column(1e16)), EITHER),
    Attack("negative y", _relevance(lambda y: y - 5.0), EITHER),
    Attack("fractional y", _relevance(lambda y: y / 3.0), EITHER),
    Attack("y above 31", _relevance(lambda y: 20.0 * y), EITHER),
    Attack("y above 1,000", _relevance(lambda y: 2000.0 * y), EITHER),
    Attack("y of 1e300", _relevance(lambda y: (y - 1.0) * 1e300), EITHER),
    Attack("y of 1.7e308", _relevance(lambda y: (y - 1.0) * 1.7e308), EITHER),
    Attack("denormal y", _relevance(lambda y: (y - 1.0) * 5e-324), EITHER),
    Attack("y one bit apart", _relevance(lambda y: 1.0 + y * 2.3e-16), EITHER),
]
"""What a solver can see: everything else is settled when data are made of arrays."""

# What a solver says to data it cannot do with: what is wrong, or what to do about it.
NUMBERS = (
    "too large|too small|too wide|overflow|scale the features|must lie between|no feature that "
    "varies|lower bound|takes integer relevance|takes relevance 0 or 1|features only|not finite|"
    "must be|top_k=1 only"
)

PARAMETER_ATTACKS = {
    "C": {1e-300: EITHER, 1e300: EITHER, 1e-30: EITHER, 1e30: EITHER},
    "lam": {1e-300: EITHER, 1e300: EITHER, 1e-30: EITHER, 1e30: EITHER},
    "tol": {1e-300: EITHER, 1e300: WORKS},
    "rho": {1e-300: EITHER, 1e300: EITHER},
    "gamma": {1e-300: EITHER, 1e300: EITHER},
    "cache_mb": {1e-300: WORKS, 1e300: WORKS},
    "max_iter": {1: EITHER},
    "epochs": {1: EITHER},
    "max_epochs": {1: EITHER},
    "n_estimators": {1: EITHER},
    "top_k": {10**9: EITHER},
    "n_threads": {10**6: WORKS, 10**12: EITHER},
    "min_child_weight": {1e300: EITHER},
    "reg_lambda": {1e300: EITHER},
    "learning_rate": {1e-300: EITHER},
}

NONSENSE = {
    "C": (0, -1.0, np.nan, np.inf, "1", None, True, 10**400),
    "lam": (0, -1.0, np.nan, np.inf, "1", None),
    "tol": (0, 0.0, -1e-3, np.nan, np.inf, "x"),
    "max_iter": (0, -1, 1.5, "1", None, True),
    "epochs": (0, -1, 1.5),
    "max_epochs": (0, -1, 1.5, None),
    "n_estimators": (0, -1, 1.5, None),
    "n_threads": (0, -1, 1.5, "2"),
    "gamma": (0, -1, np.nan),
    "cache_mb": (0, -1, np.nan),
}

RANDOM_STATES = ("x", -1, 1.5, [1.5], object(), [-1])
