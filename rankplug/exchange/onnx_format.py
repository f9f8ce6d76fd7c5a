"""Models as ONNX graphs, for onnxruntime, and MLflow's ``onnx`` flavor.

The only input is a double tensor ``X`` of shape (rows, features), which MLflow makes of a frame's
columns in their order; the only output is a double tensor ``score`` of shape (rows,). Opset 17 and
``ai.onnx.ml`` 3 (ONNX 1.12, onnxruntime 1.12 and later) are what the graph needs. Trees compare in
double precision, but `TreeEnsembleRegressor` returns single precision.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rankplug.exchange.floats import finite
from rankplug.exchange.form import Columns, Expansion, Form
from rankplug.exchange.spelling import spell_out
from rankplug.exchange.weights import note_order

_OPSET, _ML_OPSET = 17, 3
_IR_VERSION = 8


def write_onnx(form: Form) -> tuple[bytes, tuple[str, ...]]:
    """The graph, as the bytes of a file."""
    from onnx import TensorProto, helper

    graph = _Graph()
    parts = []
    if len(form.terms.feature):
        parts.append(_terms(graph, form))
    if len(form.ramps.feature):
        parts.append(_ramps(graph, form))
    notes: tuple[str, ...] = (note_order(form, first=0),)
    if len(form.trees.sizes):
        output, more = _trees(graph, form)
        parts.append(output)
        notes += ("trees add up in single precision: scores are right to about 1e-6", *more)
    parts += [_expansion(graph, one, form.takes_missing) for one in form.expansions]
    # Of no part, a column of zeros: the rows' number comes from the input.
    total = parts[0] if parts else graph.node("ReduceSum", "X", graph.ints([1]), keepdims=0)
    if not parts:
        total = graph.node("Mul", total, graph.number(0.0))
    for part in parts[1:]:
        total = graph.node("Add", total, part)
    graph.node("Add", total, graph.number(form.constant), output="score")
    double = TensorProto.DOUBLE
    made = helper.make_graph(
        graph.nodes,
        "rankplug",
        [helper.make_tensor_value_info("X", double, ["rows", form.n_features])],
        [helper.make_tensor_value_info("score", double, ["rows"])],
        graph.constants,
    )
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
    model = helper.make_model(made, opset_imports=opsets, producer_name="rankplug")
    model.ir_version = _IR_VERSION
    helper.set_model_props(model, {"feature_names": json.dumps(form.names)})
    return model.SerializeToString(), notes


class _Graph:
    """Nodes and constants of a graph, with names of their own."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(
        self, kind: str, *inputs: str, output: str = "", domain: str = "", **attributes: Any
    ) -> str:
        """Add a node; returns the name of its output."""
        from onnx import helper

        name = output or f"v{len(self.nodes)}"
        made = helper.make_node(kind, list(inputs), [name], domain=domain, **attributes)
        self.nodes.append(made)
        return name

    def array(self, values: Any) -> str:
        """Add a constant; returns its name."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def number(self, value: float) -> str:
        """Add a number."""
        return self.array(np.float64(value))

    def ints(self, values: list[int]) -> str:
        """Add integers."""
        return self.array(np.array(values, dtype=np.int64))

    def columns(self, feature: Any) -> str:
        """Some columns of the input."""
        return self.node("Gather", "X", self.array(feature), axis=1)

    def known(self, columns: str, values: str, missing: Any) -> str:
        """The values, or others where the columns are missing."""
        return self.node("Where", self.node("IsNaN", columns), self.array(missing), values)

    def sum(self, values: str) -> str:
        """Over the columns."""
        return self.node("ReduceSum", values, self.ints([1]), keepdims=0)


def _terms(graph: _Graph, form: Form) -> str:
    terms = form.terms
    x = graph.columns(terms.feature)
    values = graph.node("Sub", x, graph.array(terms.shift)) if terms.shift.any() else x
    values = graph.node("Mul", values, graph.array(terms.weight))
    if form.takes_missing:
        values = graph.known(x, values, terms.missing)
    return graph.sum(values)


def _ramps(graph: _Graph, form: Form) -> str:
    ramps = form.ramps
    x = graph.columns(ramps.feature)
    values = graph.node("Sub", x, graph.array(ramps.low))
    values = graph.node("Div", values, graph.array(ramps.high - ramps.low))
    values = graph.node("Clip", values, graph.number(0.0), graph.number(1.0))
    values = graph.node("Mul", values, graph.array(ramps.weight))
    if form.takes_missing:
        values = graph.known(x, values, ramps.missing)
    return graph.sum(values)


def _trees(graph: _Graph, form: Form) -> tuple[str, tuple[str, ...]]:
    from onnx import TensorProto, helper

    trees, notes = spell_out(form.trees)
    ids = np.repeat(np.arange(len(trees.sizes)), trees.sizes)
    starts = np.cumsum(trees.sizes) - trees.sizes
    numbers = np.arange(len(ids)) - np.repeat(starts, trees.sizes)
    leaf = trees.is_leaf

    def doubles(name: str, values: Any) -> Any:
        return helper.make_tensor(name, TensorProto.DOUBLE, [len(values)], values)

    kinds = np.where(leaf, "LEAF", "BRANCH_LEQ").tolist()
    output = graph.node(
        "TreeEnsembleRegressor",
        "X",
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=ids.tolist(),
        nodes_nodeids=numbers.tolist(),
        nodes_featureids=trees.feature.tolist(),
        nodes_modes=kinds,
        nodes_values_as_tensor=doubles("thresholds", finite(trees.threshold)),
        nodes_truenodeids=np.where(leaf, 0, trees.left).tolist(),
        nodes_falsenodeids=np.where(leaf, 0, trees.right).tolist(),
        nodes_missing_value_tracks_true=(trees.missing_left & ~leaf).astype(int).tolist(),
        target_treeids=ids[leaf].tolist(),
        target_nodeids=numbers[leaf].tolist(),
        target_ids=[0] * int(leaf.sum()),
        target_weights_as_tensor=doubles("values", trees.value[leaf]),
    )
    wide = graph.node("Cast", output, to=TensorProto.DOUBLE)
    return graph.node("Squeeze", wide, graph.ints([1])), notes


def _expansion(graph: _Graph, one: Expansion, takes_missing: bool) -> str:
    z = _scaled(graph, one.columns, takes_missing)
    rows = one.rows
    if one.function == "rbf":
        # Around the mean of the rows, where squares cancel least.
        center = rows.mean(axis=0)
        z = graph.node("Sub", z, graph.array(center))
        rows = rows - center
    products = graph.node("MatMul", z, graph.array(np.ascontiguousarray(rows.T)))
    if one.function == "rbf":
        own = graph.node("ReduceSum", graph.node("Mul", z, z), graph.ints([1]), keepdims=1)
        twice = graph.node("Mul", products, graph.number(-2.0))
        squares = graph.node("Add", graph.node("Add", twice, own), graph.array((rows**2).sum(1)))
        squares = graph.node("Max", squares, graph.number(0.0))
        values = graph.node("Exp", graph.node("Mul", squares, graph.number(-one.gamma)))
    elif one.function == "poly":
        scaled = graph.node("Mul", products, graph.number(one.gamma))
        scaled = graph.node("Add", scaled, graph.array(one.offset))
        values = graph.node("Pow", scaled, graph.number(float(one.degree)))
    else:
        values = graph.node("Cos", graph.node("Add", products, graph.array(one.offset)))
    return graph.node("MatMul", values, graph.array(one.coef))


def _scaled(graph: _Graph, columns: Columns, takes_missing: bool) -> str:
    x = graph.columns(columns.feature)
    if takes_missing and not np.isnan(columns.fill).all():
        x = graph.known(x, x, columns.fill)
    if columns.shift.any():
        x = graph.node("Sub", x, graph.array(columns.shift))
    if np.any(columns.factor != 1.0):
        x = graph.node("Mul", x, graph.array(columns.factor))
    return x
