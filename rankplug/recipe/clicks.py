"""Schema of the section ``clicks``: logs of clicks, or simulated users, and their propensities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from rankplug.clicks import ClickLog, Method, Propensities, WeightedClicks, weigh_clicks
from rankplug.recipe.sections import Section
from rankplug.recipe.values import CHOSEN, LISTED, Line, Share, SimulatedClicks, list_of, must_be

LearnFrom: TypeAlias = Literal["relevance", "clicks", "weighted-clicks", "lists"]
_MOST_POSITIONS = 10_000

_Propensity: TypeAlias = Annotated[
    float, Field(strict=True, gt=0, allow_inf_nan=False), must_be("a number > 0")
]
_Propensities: TypeAlias = Annotated[
    Annotated[Literal[Method, "none"], Tag(CHOSEN)]
    | Annotated[tuple[_Propensity, ...], list_of("propensities", _MOST_POSITIONS), Tag(LISTED)],
    Discriminator(lambda given: LISTED if isinstance(given, list | tuple) else CHOSEN),
]


@dataclass(frozen=True)
class Clicks(Section):
    """``clicks``: entries learn from users' clicks, as their key ``learn_from`` says.

    The data are tables with a row for each time that a document was shown, with columns of the
    names below, as `rankplug.clicks.ClickLog.from_table` reads them; validation and test set may
    also have relevance instead. Or they are graded, as ever, and users click on the training set.
    What metrics and validation take for the relevance of a log are its weighted clicks.

    An entry learns from "weighted-clicks", each of which counts as its propensity says; from
    "clicks", each of which counts 1; from "lists", each list of a session as a query, in the order
    shown, as the libraries of trees take them for their own models of position; or from
    "relevance".
    """

    simulate: SimulatedClicks | None = None
    """Parameters of `rankplug.clicks.simulate_clicks`, such as ``{n_sessions: 10000, eta: 1}``, for
    data that are graded."""
    document: Line = "document"
    """Column of the document."""
    position: Line = "position"
    """Column of the position, from 1."""
    click: Line = "click"
    """Column of whether it was clicked, 0 or 1."""
    session: Line | None = None
    """Column of the session; none if left out."""
    randomised: Line | None = None
    """Column of whether the list was in random order, 0 or 1; none if left out."""
    propensities: _Propensities = "interventions"
    """How they are estimated on the training set, see `rankplug.clicks.estimate_propensities`; or
    numbers, by position from 1; or ``none``, if each click counts 1."""
    clip: Share = 0.0
    """Propensities below it count as this."""

    def weigh(self, log: ClickLog, propensities: Propensities | None = None) -> WeightedClicks:
        """The clicks of a log, weighed as the section says or by known propensities.

        Raises
        ------
        DataError
            As `rankplug.clicks.weigh_clicks`.
        """
        return weigh_clicks(log, propensities or self.propensities, clip=self.clip or None)
