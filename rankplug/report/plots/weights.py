"""Feature plots: signed weights of linear models, importances of others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import row_blocks
from rankplug.models import LinearModel, Model, ScaledModel
from rankplug.report.plots.canvas import INK, NEGATIVE, POSITIVE, Canvas, Plot, room_for, shorten
from rankplug.report.report import Report
from rankplug.solver import Data

_MOST_FEATURES = 15  # labels of one panel that are read without scrolling
_BLOCK_ELEMENTS = 1 << 23  # of a block of rows: 64 MB


@dataclass(frozen=True)
class Influence:
    """How much each feature counts; `signed` if it says in which direction, too."""

    name: str
    values: NDArray[np.float64]
    signed: bool

    @property
    def shares(self) -> NDArray[np.float64]:
        """Percent of the largest."""
        largest = np.abs(self.values).max(initial=0.0)
        shares: NDArray[np.float64] = 100 * self.values / largest if largest else self.values
        return shares


def weights(report: Report, canvas: Canvas) -> list[Plot]:
    """A panel for each model that tells, all with the same features in the same order."""
    models = {one.name: one.result.model for one in report.competitors if one.result is not None}
    found = influences(models, report.test)
    if not found or len({len(one.values) for one in found}) != 1:
        return []
    chosen = strongest(found)
    everyone = [one.result.model for one in report.succeeded if one.result is not None]
    labels = label_features(everyone, chosen)
    return [_draw_panel(one, chosen, labels, canvas) for one in found]


def influences(models: Mapping[str, Model], data: Data | None = None) -> list[Influence]:
    """The influence of the features in each model that tells; weights by the data's deviation."""
    spread = None if data is None else _deviation(data)
    found = (_influence(name, model, spread) for name, model in models.items())
    return [one for one in found if one is not None and one.values.any()]


def strongest(found: Sequence[Influence], most: int = _MOST_FEATURES) -> NDArray[np.int64]:
    """The features of most influence in any of the models, the strongest first."""
    strength = np.max([np.abs(one.shares) for one in found], axis=0)
    return np.argsort(-strength, kind="stable")[:most]


def _influence(name: str, model: Model, spread: NDArray[np.float64] | None) -> Influence | None:
    coef = _coefficients(model)
    if coef is not None:
        return Influence(name, coef if spread is None else coef * spread, signed=True)
    importances = model.feature_importances()
    return None if importances is None else Influence(name, importances, signed=False)


def _coefficients(model: Model) -> NDArray[np.float64] | None:
    """Weights of the features as they come, of a model that ranks documents by them."""
    if isinstance(model, ScaledModel):
        inner = _coefficients(model.model)
        return None if inner is None else inner * model.scaling.factor
    return model.coef if isinstance(model, LinearModel) else None


def _deviation(data: Data) -> NDArray[np.float64]:
    """Standard deviation of each unscaled feature, which makes weights comparable.

    Of a feature without a value it is 0.
    """
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(with_mean=False)
    with np.errstate(invalid="ignore"):  # columns without a value
        for rows in row_blocks(data.X, _BLOCK_ELEMENTS):
            scaler.partial_fit(data.X[rows])
    deviation: NDArray[np.float64] = np.sqrt(np.nan_to_num(scaler.var_, nan=0.0))
    if data.scaling is not None:
        deviation /= data.scaling.factor
    return deviation


def label_features(models: Iterable[Model], chosen: NDArray[np.int64]) -> list[str]:
    """The names of features, by the first model that knows any."""
    names = next((model.feature_names for model in models if model.feature_names), None)
    return [f"column {i}" if names is None else shorten(names[i]) for i in chosen]


def _draw_panel(
    one: Influence, chosen: NDArray[np.int64], labels: list[str], canvas: Canvas
) -> Plot:
    with canvas.axes(0.8 + 0.21 * len(chosen), left=room_for(labels)) as axes:
        draw_influence(axes, one, chosen, labels)
        svg = canvas.svg(axes, f"Features of {one.name}")
    largest = math.nan if not len(one.values) else np.abs(one.values).max()
    return Plot(one.name, svg, f"Largest: {largest:.3g}.")


def draw_influence(
    axes: Any, one: Influence, chosen: NDArray[np.int64], labels: Sequence[str]
) -> None:
    """A bar for each of the chosen features: its share of the largest influence."""
    shares = one.shares[chosen]
    places = np.arange(len(chosen))
    colors = [POSITIVE if share >= 0 else NEGATIVE for share in shares] if one.signed else INK
    alpha = 1.0 if one.signed else 0.55
    bars = axes.barh(places, shares, height=0.62, color=colors, alpha=alpha)
    if one.signed:
        # Signs in ink, for those who do not see the colours.
        signs = ["+" if share > 1 else "−" if share < -1 else "" for share in shares]  # noqa: RUF001
        axes.bar_label(bars, signs, padding=4)
        axes.margins(x=0.08)
        axes.axvline(0.0, color=INK, linewidth=0.8)
    axes.set_yticks(places, labels, parse_math=False)
    axes.set_ylim(len(chosen) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("% of the largest")
