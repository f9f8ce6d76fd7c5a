"""Weights as text: model files of LIBLINEAR, SVMrank and RankLib, and readers of the first two.

* LIBLINEAR: as `save_model` and `load_model` of its version 2.50 (and of liblinear-ranksvm) have
  it: ``solver_type``, ``nr_class``, ``nr_feature``, ``bias``, and a weight a line below ``w``.
* SVMrank and SVM-light: as `write_model` and `read_model` of SVM-light V6.02 (SVMrank V6.20) have
  it: ten lines of parameters, the threshold, and a line for each support vector. Numbers of
  features and weights are read in single precision there.
* RankLib: as `CoorAscent.loadFromString` of RankLib 2.x (Lemur, and CodeLibs' fork) reads it:
  ``feature:weight`` pairs below lines that begin with ``##``.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.exchange.form import Floats, Form
from rankplug.kernels import Kernel
from rankplug.models import KernelModel, LinearModel, Model

_MOST_FEATURES = 50_000_000
"""Of a file that says more than it holds: 400 MB of weights, and more than data sets have."""

_NUMBER = r"[-+]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][-+]?\d{1,4})?"
_COUNT = r"\d{1,10}"

_REGRESSION = ("L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL")
_BINARY = (
    "L2R_LR", "L2R_L2LOSS_SVC_DUAL", "L2R_L2LOSS_SVC", "L2R_L1LOSS_SVC_DUAL",
    "L1R_L2LOSS_SVC", "L1R_LR", "L2R_LR_DUAL",
)  # fmt: skip
_RANKING = ("L2R_L2LOSS_RANKSVM",)  # of liblinear-ranksvm

Written = tuple[str, tuple[str, ...]]
Read = tuple[Model, tuple[str, ...]]


def note_order(form: Form, first: int = 1) -> str:
    """That a format numbers features."""
    named = ", ".join(f"{k} is {name!r}" for k, name in enumerate(form.names[:3], start=first))
    more = ", ..." if form.n_features > 3 else ""
    return f"features are numbers, in their order: {named}{more}"


def note_missing(form: Form, missing: Floats) -> tuple[str, ...]:
    """That what is absent counts as 0 in a format, if it does not in the model."""
    if not form.takes_missing or not np.nan_to_num(missing).any():
        return ()
    return (
        "a missing feature counts as 0 there, which is not what it adds here: fill it in before",
    )


def write_liblinear(form: Form) -> Written:
    """The file of a regression, whose predictions are the scores."""
    weights, constant, missing = form.folded_terms()
    lines = ["solver_type L2R_L2LOSS_SVR", "nr_class 2", f"nr_feature {form.n_features}"]
    lines += [f"bias {1 if constant else -1}", "w"]
    lines += [f"{weight!r} " for weight in [*weights.tolist(), *([constant] if constant else ())]]
    notes = (note_order(form), *note_missing(form, missing))
    return "\n".join(lines) + "\n", notes


def write_svmrank(form: Form) -> Written:
    """The file of a linear model, or of a Gaussian or polynomial kernel."""
    weights, constant, missing = form.folded_terms()
    kernel, notes = "0", [note_order(form), "numbers are read in single precision there"]
    gamma, degree, offset = 1.0, 3, 1.0
    vectors = [(1.0, weights)]
    if form.expansions:
        one, *others = form.expansions
        known = {"poly": "1", "rbf": "2"}
        plain = not (np.any(one.columns.shift) or np.any(one.columns.factor != 1.0))
        if others or one.function not in known or not plain or np.any(weights):
            raise ParameterError(
                "svmrank files hold one Gaussian or polynomial kernel of the features as they "
                "are: export sums, scaled kernels and random waves to onnx"
            )
        kernel, gamma, degree = known[one.function], one.gamma, one.degree
        offset = float(one.offset[0]) if len(one.offset) else 0.0
        vectors = list(zip(one.coef.tolist(), one.rows, strict=True))
    head = [
        "SVM-light Version V6.20",
        f"{kernel} # kernel type",
        f"{degree} # kernel parameter -d ",
        f"{gamma!r} # kernel parameter -g ",
        f"{gamma if kernel == '1' else 1.0!r} # kernel parameter -s ",
        f"{offset!r} # kernel parameter -r ",
        "empty# kernel parameter -u ",
        f"{form.n_features} # highest feature index ",
        "1 # number of training documents ",
        f"{len(vectors) + 1} # number of support vectors plus 1 ",
        f"{-constant!r} # threshold b, each following line is a SV (starting with alpha*y)",
    ]
    lines = [f"{coef!r} {_pairs(row)} #" for coef, row in vectors]
    notes += note_missing(form, missing)
    return "\n".join([*head, *lines]) + "\n", tuple(notes)


def _pairs(row: Floats) -> str:
    used = np.flatnonzero(row)
    pairs = zip(used.tolist(), row[used].tolist(), strict=True)
    return " ".join(f"{j + 1}:{value!r}" for j, value in pairs)


def write_ranklib_weights(form: Form) -> Written:
    """The file of a model of coordinate ascent, which is any linear one."""
    weights, constant, missing = form.folded_terms()
    pairs = " ".join(f"{j}:{weight!r}" for j, weight in enumerate(weights.tolist(), start=1))
    notes = [note_order(form), "features are in single precision there"]
    if constant:
        notes.append(f"the constant {constant:g} is left out, which changes no order in a query")
    return f"## Coordinate Ascent\n{pairs}\n", (*notes, *note_missing(form, missing))


def read_liblinear(text: str) -> Read:
    """The linear model of a LIBLINEAR file.

    Raises
    ------
    ModelFormatError
        If it is none, or one of more than two classes.
    """
    head, found, rest = text.partition("\nw\n")
    if not found:
        raise _refused("LIBLINEAR", "it has no line 'w', below which the weights stand")
    lines = [line.split() for line in head.splitlines()]
    entries = {words[0]: words[1:] for words in lines if words}
    expected = {"solver_type", "nr_class", "nr_feature", "bias"}
    if len(entries) != len(lines) or not expected <= entries.keys() <= expected | {"label"}:
        raise _refused("LIBLINEAR", f"its lines are {', '.join(map(str, entries))[:200]}")
    solver = " ".join(entries["solver_type"])
    if solver not in (*_REGRESSION, *_BINARY, *_RANKING) or entries["nr_class"] != ["2"]:
        raise _refused(
            "LIBLINEAR", f"{solver[:40]} of {' '.join(entries['nr_class'])[:20]} classes has no "
            "single score: regression, ranking and two classes have one"
        )  # fmt: skip
    n_features = int(_only(entries["nr_feature"], _COUNT, "nr_feature"))
    bias = float(_only(entries["bias"], _NUMBER, "bias"))
    words = rest.split()
    if not 0 < n_features == len(words) - (bias >= 0):
        raise _refused("LIBLINEAR", f"{len(words)} weights for {n_features} features")
    weights = _floats(words, "LIBLINEAR")
    notes = []
    if solver in _BINARY:
        labels = entries.get("label", [])
        if len(labels) != 2 or not all(re.fullmatch(r"-?\d{1,10}", one) for one in labels):
            raise _refused("LIBLINEAR", "two classes need two labels")
        if int(labels[0]) < int(labels[1]):
            weights = -weights
            notes.append(f"the file scores label {labels[0]}: turned, so that {labels[1]} is best")
    if bias >= 0 and bias * weights[-1] != 0.0:
        added = bias * weights[-1]
        notes.append(f"the bias adds {added:g} to all scores, which changes no order: left out")
    return _linear(weights[:n_features], "LIBLINEAR"), tuple(notes)


_SVM_LINES = (
    r"SVM-light Version V\S{1,20}",
    rf"({_COUNT}) # kernel type",
    rf"(-?{_COUNT}) # kernel parameter -d",
    rf"({_NUMBER}) # kernel parameter -g",
    rf"({_NUMBER}) # kernel parameter -s",
    rf"({_NUMBER}) # kernel parameter -r",
    r".{0,200}# kernel parameter -u",
    rf"({_COUNT}) # highest feature index",
    rf"({_COUNT}) # number of training documents",
    rf"({_COUNT}) # number of support vectors plus 1",
    rf"({_NUMBER}) # threshold b.{{0,200}}",
)


def read_svmrank(text: str) -> Read:
    """The model of an SVMrank or SVM-light file: linear, or with a polynomial or Gaussian kernel.

    Raises
    ------
    ModelFormatError
        If it is none, or its kernel is of another kind.
    """
    lines = text.splitlines()
    if len(lines) < len(_SVM_LINES):
        raise _refused("SVMrank", "it ends before its support vectors")
    matches = [
        re.fullmatch(pattern, line.strip(), re.ASCII)
        for pattern, line in zip(_SVM_LINES, lines, strict=False)
    ]
    if None in matches:
        place = matches.index(None)
        raise _refused("SVMrank", f"line {place + 1} is {lines[place][:60]!r}")
    numbers = [match[1] for match in matches if match is not None and match.re.groups]
    kind, degree, gamma, scale, offset, highest, _, count, threshold = numbers
    vectors = [line for line in lines[len(_SVM_LINES) :] if line.strip()]
    n_features = int(highest)
    if not 0 < n_features <= _MOST_FEATURES or len(vectors) != int(count) - 1:
        raise _refused("SVMrank", f"{len(vectors)} support vectors of {n_features} features")
    coef, rows = _support(vectors, n_features)
    notes: tuple[str, ...] = ()
    if float(threshold):
        notes = (f"the threshold takes {threshold} off all scores: left out, it changes no order",)
    if kind == "0":
        return _linear(np.asarray(rows.T @ coef, dtype=np.float64), "SVMrank"), notes
    if kind not in ("1", "2") or (kind == "1" and not 1 <= int(degree) < 2**31):
        raise _refused("SVMrank", f"kernels of type {kind} and degree {degree} are not known")
    if kind == "1":
        kernel = Kernel("poly", _finite(scale), int(degree), _finite(offset))
    else:
        kernel = Kernel("rbf", _finite(gamma))
    try:
        return KernelModel(kernel, rows, coef), notes
    except DataError as error:
        raise _refused("SVMrank", str(error)) from None


def _support(lines: list[str], n_features: int) -> tuple[Floats, sparse.csr_array]:
    coef, values, columns, ends = [], [], [], [0]
    for number, line in enumerate(lines, start=1):
        first, *pairs = line.partition("#")[0].split() or [""]
        split = [re.fullmatch(rf"({_COUNT}):({_NUMBER})", pair, re.ASCII) for pair in pairs]
        if None in split or not re.fullmatch(_NUMBER, first, re.ASCII):
            raise _refused("SVMrank", f"support vector {number} is {line[:60]!r}")
        coef.append(first)
        places = [int(pair[1]) for pair in split if pair is not None]
        if any(b <= a for a, b in zip([0, *places], [*places, n_features + 1], strict=True)):
            raise _refused("SVMrank", f"features of support vector {number} do not ascend")
        columns += places
        values += [pair[2] for pair in split if pair is not None]
        ends.append(len(columns))
    data, index = _floats(values, "SVMrank"), np.array(columns, dtype=np.int64) - 1
    shape = (len(lines), n_features)
    return _floats(coef, "SVMrank"), sparse.csr_array((data, index, np.array(ends)), shape=shape)


def _floats(words: list[str], program: str) -> Floats:
    odd = next((word for word in words if not re.fullmatch(_NUMBER, word, re.ASCII)), None)
    if odd is not None:
        raise _refused(program, f"{odd[:40]!r} is no number")
    found: NDArray[np.float64] = np.array(words, dtype=np.float64)
    if not np.isfinite(found).all():
        raise _refused(program, "a number is too large")
    return found


def _finite(text: str) -> float:
    return float(_floats([text], "SVMrank")[0])


def _linear(weights: Floats, program: str) -> LinearModel:
    if not np.isfinite(weights).all():
        raise _refused(program, "a weight is too large")
    return LinearModel(weights)


def _only(words: list[str], pattern: str, name: str) -> str:
    if len(words) != 1 or not re.fullmatch(pattern, words[0], re.ASCII):
        raise _refused("LIBLINEAR", f"{name} is {' '.join(words)[:40]!r}")
    return words[0]


def _refused(program: str, reason: str) -> ModelFormatError:
    return ModelFormatError(f"no model of {program}: {reason}")
