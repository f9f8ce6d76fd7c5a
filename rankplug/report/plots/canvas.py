"""Matplotlib figures as inline SVG in the font and the colours of the page, light or dark."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any, Self, TypeAlias, TypeVar
from xml.etree import ElementTree

from rankplug.exceptions import warn_caller

_Source = TypeVar("_Source")

# Colours of Okabe and Ito, which people of all colour visions tell apart.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
INK = "#010101"  # the page's text; black itself Matplotlib leaves out as SVG's default
POSITIVE, NEGATIVE = PALETTE[0], PALETTE[1]
_COLOURS = {
    INK: "currentColor",
    **{colour: f"var(--c{place})" for place, colour in enumerate(PALETTE)},
}
"""The page's variables: on white they are a little darker, in the dark a little lighter."""
_MARKERS = "o^Dv<>Ph"
_DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))

_RC: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rankplug",
    "text.parse_math": False,
    "font.size": 11,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "grid.alpha": 0.15,
    "grid.color": INK,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.minor.visible": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 6,
}


_WIDTH = 4.3  # inches, of a figure: a phone's page shows its letters in the size of the text
_BOTTOM = 0.58  # inches, for the labels of the axis below
_MARGIN = 0.17  # inches, at the top and at the right
_FEWEST_DECADES = 0.5  # of a logarithmic axis: narrower, it would show one tick
_STEPS = ((0.9, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)), (1.6, (1.0, 2.0, 5.0)), (2.6, (1.0, 3.0)))
"""Ticks within a decade of an axis of fewer decades."""


@dataclass(frozen=True)
class Plot:
    """A picture with its title above and its caption below."""

    title: str
    svg: str
    caption: str = ""


@dataclass(frozen=True)
class Style:
    """How a solver is drawn, everywhere the same."""

    color: str
    marker: str
    linestyle: Any


Styles: TypeAlias = Mapping[str, Style]

_BASELINE = Style(INK, "s", "solid")


def styles_of(names: Iterable[str], baseline: str | None = None) -> Styles:
    """A style for each solver; colour, marker and dashes together tell all of them apart."""
    styles = map(Style, cycle(PALETTE), cycle(_MARKERS), cycle(_DASHES))
    return {name: _BASELINE if name == baseline else next(styles) for name in names}


class Canvas:
    """Makes the figures of one page, whose ids differ.

    Parameters
    ----------
    names : iterable of str
        The solvers, in the order of the report.
    baseline : str or None
        Drawn in the colour of the text.
    """

    def __init__(self, names: Iterable[str], baseline: str | None) -> None:
        self.styles = styles_of(names, baseline)
        self.failures: list[str] = []
        self._numbers = count(1)

    def draw(self, plots: Callable[[_Source, Self], list[Plot]], report: _Source) -> list[Plot]:
        """The plots that a function makes of a report; none, and a warning, where it fails.

        What was measured is worth more than a picture of it. `failures` keeps what went wrong.
        """
        try:
            return plots(report, self)
        except Exception as error:
            self.failures.append(
                f"figures of {plots.__name__} are left out, as they cannot be drawn: {error!r}"
            )
            warn_caller(f"report: {self.failures[-1]}")
            return []

    @contextmanager
    def axes(self, height: float = 3.0, *, left: float = 0.85) -> Iterator[Any]:
        """Axes of a new figure; all are as wide as a phone's page, so that letters are alike.

        Parameters
        ----------
        height, left : float
            Inches: of the figure, and of the room for labels at the left.
        """
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context(_RC):
            figure = Figure(figsize=(_WIDTH, height))
            # Fixed margins: finding them out takes longer than drawing.
            yield figure.add_axes(
                (
                    left / _WIDTH,
                    _BOTTOM / height,
                    1 - (left + _MARGIN) / _WIDTH,
                    1 - (_BOTTOM + _MARGIN) / height,
                )
            )

    def svg(self, axes: Any, label: str) -> str:
        """The figure of these axes, inside the `axes` block; `label` describes it in words."""
        stream = io.BytesIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        axes.figure.savefig(stream, format="svg", metadata=nothing)
        return _inline_svg(stream.getvalue(), f"p{next(self._numbers)}-", label)

    def key(self, name: str) -> str:
        """The sample of a legend as an SVG symbol: a piece of the solver's line, its marker."""
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context(_RC):
            axes = Figure(figsize=(0.42, 0.16)).add_axes((0, 0, 1, 1))
            axes.set_axis_off()
            axes.plot([0, 1, 2], [0, 0, 0], markevery=[1], **vars(self.styles[name]))
            picture = self.svg(axes, name)
        place = list(self.styles).index(name)
        return picture.replace("<svg ", f'<symbol id="key-{place}" ').replace("</svg", "</symbol")


def _inline_svg(picture: bytes, prefix: str, label: str) -> str:
    """The element ``svg`` of a file, without what a page must not have twice or at all.

    The prefix makes all ids different from those of other pictures; the label describes the
    picture for those who do not see it.
    """
    root = ElementTree.fromstring(picture)
    needed = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', picture.decode()))
    # Their rules would hold for the whole page.
    for parent in root.iter():
        for child in list(parent):
            if child.tag.endswith(("}style", "}metadata")):
                parent.remove(child)
    for element in root.iter():
        attributes = {_local(key): value for key, value in element.items()}
        if attributes.get("id") not in needed:
            attributes.pop("id", None)
        element.tag = _local(element.tag)
        element.attrib.clear()
        for key, value in attributes.items():
            element.set(key, _adapt(key, value, prefix))
        element.tail = (element.tail or "").strip()
        if element.tag not in ("text", "tspan"):
            element.text = (element.text or "").strip()
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    """A name without its namespace, which a page has for all its elements."""
    return name.rpartition("}")[2]


def _adapt(key: str, value: str, prefix: str) -> str:
    """The value of an attribute in the page."""
    if key == "id":
        return prefix + value
    if key == "href":
        return value.replace("#", f"#{prefix}", 1)
    if key == "d":
        return " ".join(value.split())
    value = value.replace("url(#", f"url(#{prefix}")
    # The page has its own font.
    value = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", value)
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: _COLOURS.get(found[0], found[0]), value)


def room_for(labels: Iterable[str]) -> float:
    """Inches that the labels of an axis need at the left."""
    return 0.25 + 0.088 * max(map(len, labels), default=0)  # a margin, and each letter


def plain_log_axis(axis: Any) -> None:
    """Make an axis logarithmic, once all is drawn, with plain numbers at its ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if not math.isfinite(axis.get_minpos()):  # nothing positive was drawn
        return
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low)
    if decades < _FEWEST_DECADES:
        middle, half = math.sqrt(low * high), 10 ** (_FEWEST_DECADES / 2)
        low, high = middle / half, middle * half
        axis.axes.set(**{f"{axis.axis_name}lim": (low, high)})
    steps = next((own for most, own in _STEPS if decades < most), (1.0,))
    every = max(1, round(decades / 5))
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1, every)
    ticks = [step * 10.0**exponent for exponent in exponents for step in steps]
    axis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def shorten(name: str, most: int = 24) -> str:
    """A name that leaves room for the plot, without characters that no picture can show."""
    shown = "".join(letter if letter.isprintable() else " " for letter in name)
    return shown if len(shown) <= most else shown[: most - 1] + "…"
