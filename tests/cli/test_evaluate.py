"""``rankplug evaluate``: metrics with intervals of a model on a file."""

import json

import numpy as np
import pytest

from rankplug import LabelRanker, Ranker, RankingData, cli, write_data
from rankplug.clicks import ClickLog, weigh_clicks
from rankplug.metrics import evaluate, evaluate_labels
from rankplug.models import LinearModel, load_model

NAMES = ["age", "size", "price"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(80, 3)), np.repeat(np.arange(8), 10)
    y = np.clip(np.round(X[:, 0] + rng.normal(size=80)), 0, 3)
    data = RankingData.from_arrays(X, y, qid, feature_names=NAMES)
    write_data(data, folder / "data.csv")
    write_data(data, folder / "data.txt.gz")
    header, *rows = (folder / "data.csv").read_text().splitlines()
    renamed = header.replace("label", "relevance").replace("qid", "query")
    (folder / "other.csv").write_text("\n".join([renamed, *rows]))
    ranker = Ranker().fit(X, y, qid=qid)
    ranker.model_.feature_names = tuple(NAMES)
    ranker.model_.save(folder / "model")
    LinearModel(np.ones(3)).save(folder / "nameless")
    labels = LabelRanker().fit(X, np.array(["red", "green"])[(y > 0).astype(int)])
    labels.model_.save(folder / "labels")
    colours = np.column_stack([y == 0, y > 0]).astype(float)
    names = np.where(y > 0, "green", "red")
    rows = [f"{a},{b},{c},{name}" for (a, b, c), name in zip(X.tolist(), names, strict=True)]
    (folder / "colours.csv").write_text("\n".join(["f0,f1,f2,colour", *rows]))
    scores = labels.predict(X)[:, [list(labels.labels_).index(name) for name in ("red", "green")]]
    expected = evaluate(y, ranker.predict(X), qid, ["ndcg@3", "map"])
    return folder, expected, evaluate_labels(colours, scores, ["kendall_tau", "top1_error"])


def run(folder, model, data, *options):
    return cli.main(["evaluate", str(folder / model), str(folder / data), *options])


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("data.csv", ["--metric", "ndcg@3", "--metric", "map"]),
        ("data.txt.gz", ["--metric", "ndcg@3, map"]),
        ("other.csv", ["--metric", "ndcg@3,map", "--label", "relevance", "--qid", "query"]),
    ],
)
def test_values_and_intervals(folder, capsys, data, options):
    folder, expected, _ = folder
    assert run(folder, "model", data, *options, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: one["value"] for name, one in found.items()} == pytest.approx(expected)
    for one in found.values():
        assert one["low"] < one["value"] < one["high"]
    assert run(folder, "model", data, *options, "--level", "0.5") == 0
    header, _, first, _ = capsys.readouterr().out.splitlines()
    assert "50 % from" in header
    assert first.split()[:2] == ["ndcg@3", f"{expected['ndcg@3']:.4f}"]


def test_options_of_a_metric_hold_commas(folder, capsys):
    folder, *_ = folder
    assert run(folder, "model", "data.csv", "--metric", "ndcg@3[gain=linear,empty=0],mrr") == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]]
    assert names == ["ndcg@3[empty=0,gain=linear]", "mrr"]


def test_label_ranking(folder, capsys):
    folder, _, expected = folder
    assert run(folder, "labels", "colours.csv", "--label", "colour", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: one["value"] for name, one in found.items()} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("model", "data", "options", "message"),
    [
        ("model", "data.csv", ["--metric", "mapp"], "unknown metric 'mapp'; did you mean 'map'"),
        ("model", "data.csv", ["--level", "95"], "level=95"),
        ("model", "other.csv", [], "no column 'label'"),
        ("model", "gone.csv", [], "gone.csv: no such file"),
        ("model", "data.csv", ["--label", "a", "--label", "b"], "one column of relevance"),
        ("labels", "colours.csv", [], "name the class column"),
        ("labels", "colours.csv", ["--qid", "q"], "--qid: the model orders labels"),
        ("gone", "data.csv", [], "no such model"),
        ("nameless", "data.csv", ["--propensities", "none"], "does not know the names of its feat"),
    ],
)
def test_a_mistake_is_one_message(folder, capsys, model, data, options, message):
    folder, *_ = folder
    assert run(folder, model, data, *options) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""


def test_a_log_of_clicks_says_what_the_ranking_would_have_got(folder, capsys):
    folder, *_ = folder
    rng = np.random.default_rng(0)
    lines = (folder / "data.csv").read_text().splitlines()
    header, rows = lines[0].replace("label", "clicked"), []
    for qid in range(8):  # each document once at the first position and once at the second
        shown = [line.split(",", 1)[1] for line in lines[1 + 10 * qid : 11 + 10 * qid]]
        for number in range(10):
            for rank in (1, 2):
                click = int(rng.random() < 1 / rank)
                rows.append(f"{click},{shown[number]},{number},{rank}")
    (folder / "log.csv").write_text("\n".join([f"{header},document,rank", *rows]))
    options = ["--position", "rank", "--click", "clicked", "--clip", "0.1"]
    log = ClickLog.from_table(folder / "log.csv", position="rank", click="clicked", features=NAMES)
    for propensities, given in (("interventions", "interventions"), ("1,0.5", [1, 0.5])):
        clicks = weigh_clicks(log, given, clip=0.1)
        expected = clicks.evaluate(load_model(folder / "model").predict(log.documents.X))
        said = [*options, "--propensities", propensities]
        assert run(folder, "model", "log.csv", *said, "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert {name: one["value"] for name, one in found.items()} == pytest.approx(
            {name: one["value"] for name, one in expected.items()}
        )
        assert run(folder, "model", "log.csv", *said) == 0
        assert repr(clicks) in capsys.readouterr().out
    assert run(folder, "model", "log.csv", *options) == 2
    assert "need --propensities" in capsys.readouterr().err
    assert run(folder, "labels", "colours.csv", "--propensities", "none") == 2
    assert "the model orders labels" in capsys.readouterr().err
    assert run(folder, "model", "log.csv", *options, "--propensities", "em", "--label", "x") == 2
    assert "not for logs of clicks" in capsys.readouterr().err
