"""Scores of rows by exported files, as the other systems compute them: none of rankplug's code."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

F = np.float32


def elasticsearch(text, X, names):
    """LinearRanker and NaiveAdditiveDecisionTree with their parsers and normalisers."""
    model = json.loads(text)["model"]["model"]
    definition = json.loads(model["definition"])
    rows = X.astype(F)
    for name, norm in model.get("feature_normalizers", {}).items():
        ((kind, values),) = norm.items()
        assert kind == "standard"
        assert F(values["standard_deviation"]) > 0
        column = names.index(name)
        rows[:, column] = (rows[:, column] - F(values["mean"])) / F(values["standard_deviation"])
    if model["type"] == "model/linear":
        weights = np.zeros(len(names), dtype=F)
        for name, weight in definition.items():
            weights[names.index(name)] = F(weight)
        rows = np.where(np.isnan(rows), F(0), rows)
        return [sum((w * x for w, x in zip(weights, row, strict=True)), F(0)) for row in rows]
    assert model["type"] == "model/xgboost+json"
    assert definition
    return [sum((_dump_value(tree, row, names) for tree in definition), F(0)) for row in rows]


def _dump_value(node, row, names):
    while "leaf" not in node:
        assert {"nodeid", "depth", "split", "split_condition", "yes", "no"} <= node.keys()
        yes, no = node["children"]
        assert (yes["nodeid"], no["nodeid"]) == (node["yes"], node["no"])
        value = row[names.index(node["split"])]
        if np.isnan(value):
            node = yes if node["missing"] == node["yes"] else no
        else:
            node = yes if F(node["split_condition"]) > value else no
    return F(node["leaf"])


def solr(text, X, names):
    """LinearModel and MultipleAdditiveTreesModel."""
    model = json.loads(text)
    used, params = [one["name"] for one in model["features"]], model["params"]
    rows = X[:, [names.index(name) for name in used]].astype(F)
    with_null = params.get("isNullSameAsZero", True) is False
    if not with_null:
        rows = np.where(np.isnan(rows), F(0), rows)
    for j, one in enumerate(model["features"]):
        if "norm" in one:
            assert one["norm"]["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
            mean, deviation = (F(one["norm"]["params"][key]) for key in ("avg", "std"))
            assert deviation > 0
            rows[:, j] = (rows[:, j] - mean) / deviation
    if model["class"].endswith(".LinearModel"):
        weights = [F(params["weights"][name]) for name in used]
        return [sum((w * x for w, x in zip(weights, row, strict=True)), F(0)) for row in rows]
    assert model["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    scores = []
    for row in rows:
        score = F(0)
        for tree in params["trees"]:
            node = tree["root"]
            while "feature" in node:
                value = row[used.index(node["feature"])]
                threshold = F(node["threshold"]) + F(1e-6)
                if np.isnan(value):
                    node = node["left"] if node["missing"] == "left" else node["right"]
                else:
                    node = node["left"] if value <= threshold else node["right"]
            score += F(tree["weight"]) * F(node["value"])
        scores.append(score)
    return scores


def ranklib(text, X, names):
    """CoorAscent and LambdaMART, whose lines are put together without the blanks around."""
    first, *lines = text.splitlines()
    rows = np.where(np.isnan(X), 0.0, X).astype(F)
    if first == "## Coordinate Ascent":
        (line,) = [line for line in lines if line.strip() and not line.startswith("##")]
        pairs = [pair.split(":") for pair in line.split()]
        return [sum(float(w) * float(row[int(j) - 1]) for j, w in pairs) for row in rows]
    assert first == "## LambdaMART"
    xml = "".join(line.strip() for line in lines if not line.startswith("#"))
    trees = ElementTree.fromstring(xml).findall("tree")

    def value(node, row):
        while node[0].tag == "feature":
            x = row[int(node[0].text) - 1]
            node = node[2] if x <= F(node[1].text) else node[3]
        return F(node[0].text)

    return [sum((F(t.get("weight")) * value(t[0], row) for t in trees), F(0)) for row in rows]


def liblinear(text, X, names):
    head, rest = text.split("\nw\n")
    entries = dict(line.split(" ", 1) for line in head.splitlines())
    assert entries["solver_type"] == "L2R_L2LOSS_SVR"
    weights, bias = np.array(rest.split(), dtype=float), float(entries["bias"])
    rows = np.where(np.isnan(X), 0.0, X)
    if bias >= 0:
        rows = np.column_stack([rows, np.full(len(rows), bias)])
    return rows @ weights


def svmrank(text, X, names):
    lines = text.splitlines()
    kind, degree, gamma, scale, offset = (float(line.split()[0]) for line in lines[1:6])
    rows, scores = np.where(np.isnan(X), 0.0, X), np.zeros(len(X))
    assert int(lines[9].split()[0]) == len(lines) - 10
    for line in lines[11:]:
        coef, *pairs = line.split("#")[0].split()
        vector = np.zeros(X.shape[1])
        for pair in pairs:
            j, value = pair.split(":")
            vector[int(j) - 1] = F(value)
        product = rows @ vector
        distance = ((rows - vector) ** 2).sum(axis=1)
        kernel = {0: product, 1: (scale * product + offset) ** degree,
                  2: np.exp(-gamma * distance)}[int(kind)]  # fmt: skip
        scores += float(coef) * kernel
    return scores - float(lines[10].split()[0])


class _Expression:
    """A parser of ranking expressions that evaluates for all rows at once, in double precision."""

    TOKEN = re.compile(
        r"\s*(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
        r"|[A-Za-z_]\w*(?:\([A-Za-z_]\w*(?:,\s*[A-Za-z_]\w*)*\))?(?:\.[A-Za-z_]\w*)*"
        r"|<=|>=|==|!=|&&|\|\||[-+*/()!<>,])",
        re.ASCII,
    )

    def __init__(self, text, values):
        # A function's name is not that of a rank feature with arguments.
        text = re.sub(r"\b(if|min|max|isNan)\(", r"\1 (", text)
        self.tokens, end = [], 0
        text = text.rstrip()
        while end < len(text):
            match = self.TOKEN.match(text, end)
            assert match, text[end : end + 40]
            self.tokens.append(match[1])
            end = match.end()
        self.values, self.n_rows = values, len(next(iter(values.values())))

    def all(self):
        found = self.conjunction()
        assert not self.tokens
        return np.broadcast_to(found, self.n_rows)

    def take(self, *wanted):
        if self.tokens and self.tokens[0] in wanted:
            return self.tokens.pop(0)
        return None

    def conjunction(self):
        left = self.comparison()
        while self.take("&&"):
            left = left & self.comparison()
        return left

    def comparison(self):
        left = self.sum()
        tests = {"<=": np.less_equal, ">=": np.greater_equal, "<": np.less, ">": np.greater,
                 "!=": np.not_equal, "==": np.equal}  # fmt: skip
        operator = self.take(*tests)
        return tests[operator](left, self.sum()) if operator else left

    def sum(self):
        left = self.product()
        while operator := self.take("+", "-"):
            right = self.product()
            left = left + right if operator == "+" else left - right
        return left

    def product(self):
        left = self.unary()
        while operator := self.take("*", "/"):
            right = self.unary()
            left = left * right if operator == "*" else left / right
        return left

    def unary(self):
        if self.take("-"):
            return -self.unary()
        if self.take("!"):
            return ~self.unary()
        return self.primary()

    def arguments(self):
        assert self.take("(")
        found = [self.conjunction()]
        while self.take(","):
            found.append(self.conjunction())
        assert self.take(")")
        return found

    def primary(self):
        if self.tokens[0] == "(":
            (value,) = self.arguments()
            return value
        token = self.tokens.pop(0)
        if token[0].isdigit():
            return np.float64(token)
        if token in ("if", "min", "max", "isNan"):
            function = {"if": np.where, "min": np.minimum, "max": np.maximum, "isNan": np.isnan}
            return function[token](*self.arguments())
        return self.values[token]


def _rank_features(X, names):
    """Names that Vespa takes; the others are functions by their number."""
    simple = r"[A-Za-z_]\w*(\(\w+\))?(\.\w+)?"
    return {
        name if re.fullmatch(simple, name, re.ASCII) else f"feature_{j}": X[:, j]
        for j, name in enumerate(names)
    }


def vespa(text, X, names):
    return _Expression(text, _rank_features(X, names)).all()


def vespa_xgboost(text, X, names):
    values = _rank_features(X, names)

    def value(node, k):
        while "leaf" not in node:
            x, threshold = values[node["split"]][k], float(F(node["split_condition"]))
            yes, no = node["children"]
            if node["yes"] != yes["nodeid"]:
                yes, no = no, yes
            missing_yes = node["missing"] == node["yes"]
            node = yes if (not x >= threshold if missing_yes else x < threshold) else no
        return float(node["leaf"])

    return [sum(value(tree, k) for tree in json.loads(text)) for k in range(len(X))]


def python(text, X, names):
    space = {}
    exec(compile(text, "model.py", "exec"), space)
    assert list(space["FEATURES"]) == list(names)
    by_name = [space["score"](dict(zip(names, row, strict=True))) for row in X.tolist()]
    assert by_name == [
        space["score"]([None if math.isnan(x) else x for x in row]) for row in X.tolist()
    ]
    return by_name


def sql(text, X, names):
    duckdb = pytest.importorskip("duckdb")
    pyarrow = pytest.importorskip("pyarrow")
    columns = [pyarrow.array(column, from_pandas=True) for column in X.T]
    table = pyarrow.table(columns, names=list(names)).append_column(
        "row number", pyarrow.array(np.arange(len(X)))
    )
    connection = duckdb.connect()
    connection.register("features", table)
    query = f'SELECT {text} AS score FROM features ORDER BY "row number"'
    return [score for (score,) in connection.execute(query).fetchall()]


def onnx(content, X, names):
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    (given,), (made,) = session.get_inputs(), session.get_outputs()
    assert (given.name, made.name) == ("X", "score")
    properties = session.get_modelmeta().custom_metadata_map
    assert json.loads(properties["feature_names"]) == list(names)
    (scores,) = session.run(None, {"X": X})
    return scores


def xgboost(text, X, names, missing=np.nan):
    library = pytest.importorskip("xgboost")
    booster = library.Booster(model_file=bytearray(text.encode()))
    booster.set_param({"nthread": 1})
    rows = library.DMatrix(X, missing=missing)
    return booster.predict(rows, output_margin=True, validate_features=False)


def vespa_lightgbm(text, X, names):
    values, content = _rank_features(X, names), json.loads(text)
    assert content["objective"] == "regression"

    def value(node, k):
        while "leaf_value" not in node:
            x = values[content["feature_names"][node["split_feature"]]][k]
            t = float(str(node["threshold"]))
            goes_left = not x >= t if node["default_left"] else x < t
            node = node["left_child" if goes_left else "right_child"]
        return node["leaf_value"]

    trees = [one["tree_structure"] for one in content["tree_info"]]
    return [sum(value(tree, k) for tree in trees) for k in range(len(X))]


def lightgbm(text, X, names):
    library = pytest.importorskip("lightgbm")
    return library.Booster(model_str=text).predict(X, raw_score=True, num_threads=1)


EVALUATORS = {
    "elasticsearch-ltr": elasticsearch,
    "opensearch-ltr": elasticsearch,
    "solr-ltr": solr,
    "ranklib": ranklib,
    "liblinear": liblinear,
    "svmrank": svmrank,
    "vespa": vespa,
    "vespa-lightgbm": vespa_lightgbm,
    "vespa-xgboost": vespa_xgboost,
    "python": python,
    "sql": sql,
    "onnx": onnx,
    "xgboost": xgboost,
    "lightgbm": lightgbm,
}
SINGLE = {"elasticsearch-ltr", "opensearch-ltr", "solr-ltr", "ranklib", "svmrank", "xgboost",
          "vespa-xgboost", "onnx"}  # fmt: skip
