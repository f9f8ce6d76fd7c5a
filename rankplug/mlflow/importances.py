"""Feature importances or coefficients of a model, as JSON and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankplug.models import LabelLinearModel, LinearModel, Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LISTED = 10_000  # of sparse data with millions of features, those that count most
_MOST_DRAWN = 20  # bars in a picture whose labels can be read
_LONGEST = 30  # letters of a label, which leave room for the bars


@dataclass(frozen=True)
class Importances:
    """How much each feature counts.

    Attributes
    ----------
    names : tuple of str
        The features', ``f0``, ``f1``, ... if the model does not know them.
    values : ndarray of shape (n_features,) or (n_labels, n_features)
        Importances as the model defines them, >= 0; of linear models the weights.
    signed : bool
        Whether they are weights.
    labels : tuple of str
        The labels that linear label ranking has weights for, one by one.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    signed: bool
    labels: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What the files are called: ``coefficients`` or ``feature_importance``."""
        return "coefficients" if self.signed else "feature_importance"

    def to_dict(self) -> dict[str, Any]:
        """The value of each feature, the largest first; for label ranking within each label."""
        if not self.labels:
            return self._listed(self.values)
        return {
            label: self._listed(row) for label, row in zip(self.labels, self.values, strict=True)
        }

    def draw(self) -> Figure:
        """The features that count most as bars, for label ranking as a row for each label."""
        from matplotlib.figure import Figure

        strength = np.abs(np.atleast_2d(self.values)).max(axis=0)
        chosen = np.argsort(-strength, kind="stable")[:_MOST_DRAWN]
        names = [_shorten(self.names[j]) for j in chosen]
        if self.labels:
            figure = Figure(figsize=(7.0, 3.6 + 0.25 * len(self.labels)), layout="constrained")
            axes, limit = figure.add_subplot(), strength.max(initial=0.0) or 1.0
            shown = self.values[:, chosen]
            image = axes.imshow(shown, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
            figure.colorbar(image, ax=axes)
            axes.set_xticks(range(len(names)), names, rotation=90, parse_math=False)
            labels = [_shorten(label) for label in self.labels]
            axes.set_yticks(range(len(labels)), labels, parse_math=False)
        else:
            figure = Figure(figsize=(7.0, 1.2 + 0.25 * len(names)), layout="constrained")
            axes = figure.add_subplot()
            shown = self.values[chosen]
            axes.barh(range(len(names)), shown, color=np.where(shown < 0, "#d55e00", "#0072b2"))
            axes.set_yticks(range(len(names)), names, parse_math=False)
            axes.invert_yaxis()
            axes.axvline(0.0, color="black", linewidth=0.8)
        more = len(self.names) - len(names)
        of = f", {len(names)} of {len(self.names)} features" if more else ""
        axes.set_title(f"{self.title.replace('_', ' ')}{of}")
        return figure

    def _listed(self, values: NDArray[np.float64]) -> dict[str, float]:
        order = np.argsort(-np.abs(values), kind="stable")[:_MOST_LISTED]
        return {self.names[j]: float(values[j]) for j in order}


def find_importances(model: Model, names: Sequence[str] | None = None) -> Importances | None:
    """What a model tells: None if it tells nothing.

    Parameters
    ----------
    model : Model
    names : sequence of str, optional
        Of the features, where the model does not know them.
    """
    weights = model.coef if isinstance(model, LinearModel | LabelLinearModel) else None
    values = model.feature_importances() if weights is None else weights
    if values is None:
        return None
    labels = tuple(map(str, model.labels)) if isinstance(model, LabelLinearModel) else ()
    known = model.feature_names or names or [f"f{j}" for j in range(values.shape[-1])]
    return Importances(tuple(map(str, known)), values, weights is not None, labels)


def _shorten(name: str) -> str:
    """A name without characters that no picture can show."""
    shown = "".join(letter if letter.isprintable() else " " for letter in name)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
