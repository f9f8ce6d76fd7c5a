"""Steps side by side, as in a ColumnTransformer, and how chains of steps are written and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from typing_extensions import override

from rankplug.models.encoding import EncodeStep
from rankplug.models.scikit_steps import SCIKIT_KINDS, ScikitStep
from rankplug.models.steps import (
    MOST_COLUMNS,
    Arrays,
    BinStep,
    ImputeStep,
    Params,
    SelectStep,
    Step,
    free_columns,
    integers,
    origins,
)
from rankplug.parameters import Real

_DEEPEST = 8  # steps within each other: pipelines of people have two or three
_MOST_STEPS = 1000

ReadArray = Callable[[str], NDArray[Any]]


class NamedStep(NamedTuple):
    """A step, and the name that it has in messages."""

    name: str
    step: Step

    def apply(self, X: Any) -> Any:
        """The transformed rows; raises `ValueError` that names the step."""
        try:
            return self.step.apply(X)
        except StepError:
            raise
        except (OverflowError, TypeError, ValueError) as error:
            raise StepError(
                f"step {self.name!r} ({self.step.kind}) refuses the features: {error}"
            ) from None


class StepError(ValueError):
    """Rows that a step does not take; the message names it."""


class Part(NamedTuple):
    """Columns that go through steps of their own, and are multiplied by a weight."""

    columns: NDArray[np.int64]
    steps: Sequence[NamedStep]
    weight: float = 1.0

    @property
    def n_out(self) -> int:
        """Columns that it makes."""
        return self.steps[-1].step.n_out if self.steps else len(self.columns)


@dataclass(frozen=True, eq=False)
class ParallelStep(Step):
    """Parts of the columns transformed each in its way, side by side.

    Attributes
    ----------
    n_in : int
    parts : tuple of Part
    sparse : bool or None
        Whether the result is a sparse matrix; None: if that of a part is.
    """

    kind = "parallel"

    n_in: int
    parts: tuple[Part, ...]
    sparse: bool | None = None

    def __post_init__(self) -> None:
        for part in self.parts:
            n_columns = len(SelectStep(self.n_in, part.columns).columns)
            for name, step in part.steps:
                if step.n_in != n_columns:
                    raise ValueError(f"{name} takes {step.n_in} columns, not {n_columns}")
                n_columns = step.n_out
        if not 0 < self.n_out <= MOST_COLUMNS:
            raise ValueError(f"{self.n_out} columns")

    @property
    @override
    def n_out(self) -> int:  # type: ignore[override]
        return sum(part.n_out for part in self.parts)

    @property
    @override
    def takes_missing(self) -> bool:
        """What becomes of missing values, each part says."""
        return True

    @override
    def origins(self) -> NDArray[np.int64] | None:
        found = []
        for columns, steps, _ in self.parts:
            of_part = origins([one.step for one in steps], len(columns))
            if of_part is None:
                return None
            found.append(columns[of_part])
        return np.concatenate(found)

    @override
    def free_columns(self) -> set[int]:
        """Those that every part that takes them leaves free."""
        taken: set[int] = set()
        for part in self.parts:
            free = free_columns([one.step for one in part.steps])
            taken |= {column for j, column in enumerate(part.columns.tolist()) if j not in free}
        return set(range(self.n_in)) - taken

    def origin(self, column: int) -> int | None:
        """As the function `origin`, of a column that no other part takes."""
        for part in self.parts:
            if column < part.n_out:
                place = origin(part.steps, column) if part.weight == 1.0 else None
                found = None if place is None else int(part.columns[place])
                uses = sum(np.count_nonzero(one.columns == found) for one in self.parts)
                return found if uses == 1 else None
            column -= part.n_out
        return None

    @override
    def apply(self, X: Any) -> Any:
        blocks = []
        for columns, steps, weight in self.parts:
            block = X[:, columns]
            for step in steps:
                block = step.apply(block)
            blocks.append(block if weight == 1.0 else block * weight)
        some = any(map(sparse.issparse, blocks))
        if self.sparse or (self.sparse is None and some):
            return sparse.csr_array(sparse.hstack(blocks))
        return np.hstack([one.toarray() if sparse.issparse(one) else one for one in blocks])

    @override
    def write(self) -> tuple[Params, Arrays]:
        raise NotImplementedError  # see `write_steps`

    @classmethod
    @override
    def read(cls, kind: str, params: Mapping[str, Any], arrays: Arrays, n_in: int) -> Self:
        raise NotImplementedError  # see `read_steps`


def origin(steps: Sequence[NamedStep], column: int) -> int | None:
    """The column that comes out of these steps in that place as it was; None if it was changed."""
    found: int | None = column
    for _, step in reversed(steps):
        if found is not None and isinstance(step, SelectStep):
            found = int(step.columns[found])
        elif found is not None and isinstance(step, ParallelStep):
            found = step.origin(found)
        else:
            return None
    return found


_READERS: Mapping[str, type[Step]] = {
    **dict.fromkeys(SCIKIT_KINDS, ScikitStep),
    "SimpleImputer": ImputeStep,
    "OneHotEncoder": EncodeStep,
    "OrdinalEncoder": EncodeStep,
    "KBinsDiscretizer": BinStep,
    "columns": SelectStep,
}


def write_steps(
    steps: Sequence[NamedStep], arrays: Arrays, prefix: str = ""
) -> list[dict[str, Any]]:
    """What JSON keeps of steps; their arrays are put beside, under names with this prefix."""
    written = []
    for place, (name, step) in enumerate(steps):
        own = f"{prefix}{place}."
        one: dict[str, Any] = {"name": name, "scaler": step.kind}
        if isinstance(step, ParallelStep):
            parts = []
            for number, part in enumerate(step.parts):
                arrays[f"{own}{number}.columns"] = part.columns.astype(np.float64)
                inner = write_steps(part.steps, arrays, f"{own}{number}.")
                parts.append({"weight": part.weight, "steps": inner})
            one |= {"n_in": step.n_in, "sparse": step.sparse, "parts": parts}
        else:
            params, values = step.write()
            for key, array in values.items():
                whole = array.dtype.kind != "f"  # files of models hold floating-point numbers
                arrays[own + key] = array.astype(np.float64) if whole else array
            one |= {"params": params, "arrays": list(values)}
        written.append(one)
    return written


def read_steps(
    written: Any, load: ReadArray, n_in: int, prefix: str = "", depth: int = 0
) -> list[NamedStep]:
    """The steps that `write_steps` has written, for so many columns.

    Raises
    ------
    ValueError, TypeError, KeyError
        If something is missing or does not fit together.
    """
    if not isinstance(written, list) or len(written) > _MOST_STEPS or depth > _DEEPEST:
        raise ValueError("steps that are no list, too many, or too deep within each other")
    steps: list[NamedStep] = []
    for place, one in enumerate(written):
        own, kind = f"{prefix}{place}.", one["scaler"]
        step: Step
        if kind == ParallelStep.kind:
            if one["n_in"] != n_in or one["sparse"] not in (True, False, None):
                raise ValueError(f"{one['n_in']} columns side by side, not {n_in}")
            parts = [
                _read_part(part, load, f"{own}{number}.", depth)
                for number, part in enumerate(one["parts"])
            ]
            step = ParallelStep(n_in, tuple(parts), one["sparse"])
        else:
            arrays = {name: load(own + name) for name in one["arrays"]}
            step = _READERS[kind].read(kind, one["params"], arrays, n_in)
        steps.append(NamedStep(str(one["name"]), step))
        n_in = step.n_out
    return steps


def _read_part(part: Mapping[str, Any], load: ReadArray, prefix: str, depth: int) -> Part:
    columns, weight = integers(load(prefix + "columns")), part["weight"]
    if not Real().accepts(weight):
        raise ValueError(f"the weight {weight!r}")
    steps = read_steps(part["steps"], load, len(columns), prefix, depth + 1)
    return Part(columns, steps, weight)
