"""`Propensities`: the chance that a user looks at a position, given or estimated from a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.clicks.harvesting import harvest
from rankplug.clicks.log import ClickLog
from rankplug.clicks.position_model import fit_position_model
from rankplug.data import real_array
from rankplug.exceptions import DataError, UnknownNameError

Method: TypeAlias = Literal["interventions", "em", "randomised"]


@dataclass(frozen=True, eq=False)
class Propensities:
    """The chance that a user looks at each position, relative to that of the first.

    Only ratios can be told from clicks, and only ratios matter: they weigh clicks.

    Attributes
    ----------
    values : float64 ndarray of shape (n_positions,)
        Of the positions from 1; NaN where it is not known.
    method : str
        Where they come from.

    Examples
    --------
    >>> Propensities.given([1, 0.5, 0.25])
    Propensities(1: 1, 2: 0.5, 3: 0.25; given)
    """

    values: NDArray[np.float64]
    method: str

    @classmethod
    def given(cls, values: ArrayLike | Mapping[int, float], method: str = "given") -> Propensities:
        """Known ones, of the positions 1, 2, ..., or by position.

        Raises
        ------
        DataError
            If one is not a positive number, or the first position has none.
        """
        if isinstance(values, Mapping):
            if not values or any(
                isinstance(position, bool) or not isinstance(position, int) or position < 1
                for position in values
            ):
                raise DataError("propensities: positions must be whole numbers from 1")
            listed = np.full(max(values), np.nan)
            listed[np.array(list(values)) - 1] = real_array(list(values.values()), "propensities")
        else:
            listed = real_array(values, "propensities")
        if listed.ndim != 1 or not listed.size or np.isnan(listed[0]):
            raise DataError("propensities must be one for each position from 1")
        wrong = np.flatnonzero(listed <= 0)
        if wrong.size:
            raise DataError(
                f"the propensity of position {wrong[0] + 1} is {listed[wrong[0]]:g}: it must be "
                "above 0, or else what is clicked there has no weight"
            )
        return cls(listed / listed[0], method)

    @classmethod
    def of(cls, given: Any, log: ClickLog) -> Propensities:
        """What is meant by a method's name, by numbers, or by `Propensities`; "none": 1 each.

        Raises
        ------
        DataError, UnknownNameError
            As `given` and `estimate_propensities`.
        """
        if isinstance(given, Propensities):
            return given
        if given is None or (isinstance(given, str) and given == "none"):
            return cls(np.ones(log.n_positions), "none")
        if isinstance(given, str):
            return estimate_propensities(log, cast(Method, given))
        return cls.given(given)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{k}: {value:.3g}" for k, value in enumerate(self.values, 1) if not np.isnan(value)
        )
        return f"Propensities({shown}; {self.method})"

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """The propensity of each position of an array; NaN where it is not known."""
        known = np.append(self.values, np.nan)
        return known[np.minimum(positions - 1, len(self.values))]


def estimate_propensities(log: ClickLog, method: Method = "interventions") -> Propensities:
    """Estimate the chance that a user looks at each position.

    Parameters
    ----------
    log : ClickLog
    method : {"interventions", "em", "randomised"}
        "interventions": from documents that were shown at several positions of the same query,
        because rankers changed, were compared, or swapped documents [1]_; see
        `rankplug.clicks.harvesting`. "em": the likelihood of the position-based model
        [2]_, [3]_, whose relevance of each document of a query is a parameter; it learns from the
        same documents, and has a bias where they were shown a few times only, or are clicked
        whenever they are looked at. "randomised": the rates of clicks on the lists in random
        order, which have the same documents at every position, on average.

    Returns
    -------
    Propensities
        Relative to the first position; NaN for those that nothing joins to the first.

    Raises
    ------
    DataError
        If nothing can be told: no document was shown at several positions, or no list in random
        order, or nothing was clicked at the first position.
    UnknownNameError
        If there is no such method.

    References
    ----------
    .. [1] Agarwal, Zaitsev, Wang, Li, Najork and Joachims, Estimating position bias without
       intrusive interventions, WSDM 2019.
    .. [2] Craswell, Zoeter, Taylor and Ramsey, An experimental comparison of click
       position-bias models, WSDM 2008.
    .. [3] Wang, Golbandi, Bendersky, Metzler and Najork, Position bias estimation for unbiased
       learning to rank in personal search, WSDM 2018.
    """
    if method not in _METHODS:
        raise UnknownNameError("method of estimating propensities", str(method), _METHODS)
    if not log.click.any():
        raise DataError("no document was clicked: propensities cannot be estimated")
    values = _METHODS[method](log)
    return Propensities(values / values[0], method)


def _of_random_lists(log: ClickLog) -> NDArray[np.float64]:
    """The rate of clicks at each position."""
    part = log.randomised_part()
    shown = np.bincount(part.position)[1:]
    clicked = np.bincount(part.position, part.click)[1:]
    if not clicked[0]:
        raise DataError(
            "nothing was clicked at the first position of the lists in random order: more of them "
            "are needed"
        )
    rates = np.full(len(shown), np.nan)
    np.divide(clicked, shown, out=rates, where=clicked > 0)
    return rates


_METHODS: dict[str, Callable[[ClickLog], NDArray[np.float64]]] = {
    "interventions": harvest,
    "em": fit_position_model,
    "randomised": _of_random_lists,
}
