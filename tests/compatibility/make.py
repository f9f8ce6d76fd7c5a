"""Writes the files of `test_written_before.py`, with the version of rankplug that they come from.

They were written by version 0.1.0 at commit bd4908a, the last one before its modules were
arranged in departments, in an environment with that version, by

    python tests/compatibility/make.py tests/compatibility/files

The script reaches into modules by the names that they had then, so that no later version runs
it. What comes of it is kept: files are added for later versions, these are not written again.

Numbers of features, weights and scalings are short binary fractions, so that the scores of
linear models are exact and the same on every machine, in whatever order they are added up.
"""

import contextlib
import itertools
import json
import lzma
import os
import platform
import shutil
import signal
import socket
import sys
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import rankplug
import rankplug.mlflow
from rankplug import LabelRanker, LabelRankingData, Ranker, RankingData, cli, make_solver
from rankplug.tuning import TuneObserver

ROOT = Path("/tmp/written-before")
"""Where the files are written: absolute paths in them begin with it."""

NAMES = ["BM25", "größe", "ページ", 'quo"te', "a/b"]
LABELS = ["rot", "grün", "blau"]
WRITTEN_AT = 1_700_000_000  # seconds since 1970: the preparation compares times of change


# --- data ---


def fractions(rng, shape):
    """Multiples of 1/4 between -2 and 2, a third of them zero, with both ends in every column."""
    X = rng.integers(-8, 9, shape) / 4
    X[rng.random(shape) < 0.3] = 0
    X[:2] = [[-2], [2]]
    return X


def documents(seed=0, n_queries=9, graded=True):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries) + 10, rng.integers(4, 9, n_queries))
    X = fractions(rng, (len(qid), len(NAMES)))
    utility = X @ [1, -0.5, 0.25, 0, 2] + rng.normal(size=len(qid))
    return X, np.digitize(utility, [-1, 1]) if graded else utility, qid


def labels(seed=1, n=30):
    rng = np.random.default_rng(seed)
    X = fractions(rng, (n, len(NAMES)))
    return X, np.digitize(X @ rng.normal(size=(5, 3)) + rng.normal(size=(n, 3)), [-1, 1])


def table(X, y, qid):
    frame = pd.DataFrame(X, columns=NAMES)
    frame.insert(0, "qid", qid)
    frame.insert(0, "label", y)
    return frame


def shorten(array, bits=6):
    """Round to multiples of 1 / 2^bits, in place."""
    array[...] = np.round(array * 2**bits) / 2**bits


def to_powers_of_two(array):
    array[...] = 2.0 ** np.round(np.log2(array))


# --- models ---


def made_models():
    """Trained models by name."""
    X, y, qid = documents()
    LX, LY = labels()
    plain = RankingData.from_arrays(X, y, qid)
    named = RankingData.from_arrays(X, y, qid, feature_names=NAMES)
    ranked = LabelRankingData.from_arrays(LX, LY, labels=LABELS, feature_names=NAMES)
    classes = LabelRankingData.from_arrays(LX, LY.argmax(axis=1))
    trees = {"n_estimators": 4, "n_threads": 1}

    def solved(name, data, **params):
        return make_solver(name, **params).solve(data, random_state=0).model

    def scaled(name, data, scale, **params):
        solver = make_solver(name, **params)
        space = {"C": [0.5], "gamma": 0.5, "max_depth": [2], "regressor": "random-forest"}
        space = {key: value for key, value in space.items() if key in solver.get_params()}
        how = {"metric": "kendall_tau", "folds": 2, "n_trials": 1, "progress": False}
        found = rankplug.tune(solver, data, scale=scale, space=space, refit=True, **how)
        return found.best_result.model

    yield "linear", solved("tree-tron", plain)
    yield "linear-of-names", solved("cutting-plane", named)
    yield "single-feature", solved("single-feature", plain)
    yield "constant", solved("constant", plain)
    yield "label-linear", solved("tree-tron", ranked)
    yield "label-linear-of-classes", solved("sopopo", classes)
    kernels = {
        "rbf": {"kernel": "rbf", "gamma": 0.25},
        "poly": {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
    }
    for kernel, params in kernels.items():
        for form, change in (("dense", np.asarray), ("sparse", sparse.csr_array)):
            of_rows = RankingData.from_arrays(change(X), y, qid, feature_names=NAMES)
            of_labels = LabelRankingData.from_arrays(change(LX), LY, labels=LABELS)
            yield f"kernel-{kernel}-{form}", solved("larank", of_rows, epochs=2, **params)
            yield f"kernel-{kernel}-{form}-labels", solved("sopopo", of_labels, **params)
    yield "xgboost", solved("xgboost-pairwise", named, **trees)
    yield "xgboost-zeros", solved("xgboost-ndcg", plain, zeros="value", **trees)
    yield "xgboost-labels", solved("xgboost-all-pairs", ranked, **trees)
    yield "lightgbm", solved("lightgbm-all-pairs", named, min_child_samples=3, **trees)
    yield "linear-then-trees", solved("linear-then-boost", named, **trees)
    yield "linear-by-regression", solved("pointwise", named, regressor="ridge")
    yield "regressor", solved("pointwise", plain, regressor=KernelRidge(kernel="rbf", gamma=0.5))
    for regressor in ("hist-gradient-boosting", "random-forest"):
        yield f"regressor-{regressor}", solved("pointwise", named, regressor=regressor, **trees)
    yield "scaled-standard", scaled("tree-tron", named, "standard")
    yield "scaled-maxabs", scaled("tree-tron", plain, "maxabs")
    yield "scaled-minmax-labels", scaled("tree-tron", ranked, "minmax")
    yield "scaled-kernel", scaled("larank", ranked, "maxabs", kernel="poly", degree=2)
    yield "scaled-xgboost", scaled("xgboost-pairwise", named, "standard", **trees)
    yield "scaled-regressor", scaled("pointwise", named, "maxabs", **trees)


def fitted_pipelines():
    """scikit-learn pipelines by name."""
    X, y, qid = documents()
    LX, LY = labels()
    frame, label_frame = pd.DataFrame(X, columns=NAMES), pd.DataFrame(LX, columns=NAMES)
    for name, scalers, solver in (
        ("pipeline", [StandardScaler()], make_solver("tree-tron")),
        ("pipeline-of-two", [MaxAbsScaler(), MinMaxScaler((-1, 1))], make_solver("tree-tron")),
        ("pipeline-xgboost", [StandardScaler(with_mean=False)], _xgboost()),
    ):
        pipeline = make_pipeline(*scalers, Ranker(solver, random_state=0))
        yield name, pipeline.fit(frame, y, ranker__qid=qid)
    ranker = LabelRanker(make_solver("sopopo", kernel="poly", gamma=0.5, degree=2), random_state=0)
    yield "pipeline-kernel-labels", make_pipeline(MaxAbsScaler(), ranker).fit(label_frame, LY)


def _xgboost():
    return make_solver("xgboost-pairwise", n_estimators=4, n_threads=1)


def make_exact(model):
    """Shorten every number that a score is a sum or product of."""
    if hasattr(model, "scaling"):
        to_powers_of_two(model.scaling.factor)
        if model.scaling.shift is not None:
            shorten(model.scaling.shift, 2)
    for _, scaler in getattr(model, "scalers", ()):
        to_powers_of_two(scaler.scale_)
        for name in ("mean_", "min_"):
            if getattr(scaler, name, None) is not None:
                shorten(getattr(scaler, name), 2)
    for name in ("coef", "dual_coef"):
        if hasattr(model, name):
            shorten(getattr(model, name))
    for name in ("model", "linear"):
        if hasattr(model, name):
            make_exact(getattr(model, name))


def write_models(folder):
    X, _, _ = documents(seed=2, n_queries=2)
    arrays, facts = {"X": X}, {}

    def write(name, model):
        model.save(folder / name)
        arrays[name] = model.predict(X)
        importances = model.feature_importances()
        facts[name] = {
            "kind": model.kind,
            "feature_names": model.feature_names,
            "labels": None if model.n_labels is None else np.asarray(model.labels).tolist(),
            "importances": None if importances is None else importances.tolist(),
        }

    for name, model in made_models():
        make_exact(model)
        write(name, model)
    for name, pipeline in fitted_pipelines():
        rankplug.mlflow.save_model(pipeline, folder / "unused")
        saved = rankplug.load_model(folder / "unused" / "model")
        shutil.rmtree(folder / "unused")
        make_exact(saved)
        write(name, saved)
    np.savez(folder / "scores.npz", **arrays)
    dump(folder / "models.json", facts)


def write_mlflow_models(folder):
    """Folders as `rankplug.mlflow.save_model` writes them."""
    X, y, qid = documents()
    frame = pd.DataFrame(X, columns=NAMES)
    ranker = Ranker(make_solver("tree-tron"), random_state=0).fit(frame, y, qid=qid)
    make_exact(ranker.model_)
    unnamed = Ranker(_xgboost(), random_state=0).fit(X, y, qid=qid)
    _, pipeline = next(fitted_pipelines())
    to_powers_of_two(pipeline[0].scale_)
    shorten(pipeline[0].mean_, 2)
    make_exact(pipeline[-1].model_)
    scores = {}
    for name, model in (("plain", ranker), ("pipeline", pipeline), ("unnamed", unnamed)):
        rankplug.mlflow.save_model(model, folder / name, input_example=frame[:2])
        scores[name] = model.predict(X if name == "unnamed" else frame)
    np.savez(folder / "scores.npz", X=X, qid=qid, **scores)


# --- prepared folders ---

PARTS = ("relevance", "query_ptr", "query_ids", "query_weight", "feature_names", "order")


def write_prepared(folder):
    X, y, qid = documents(n_queries=12)
    rng = np.random.default_rng(3)
    sorted_rows = table(X, y, qid)
    sorted_rows["weight"] = (qid % 3 + 1) / 2
    sorted_rows["qid"] = [f"q{one}" for one in qid]
    rows = sorted_rows.iloc[rng.permutation(len(y))]
    rows.to_csv(folder / "rows.csv", index=False)
    rankplug.write_data(RankingData.from_arrays(sparse.csr_array(X), y, qid), folder / "rows.txt")
    csv = {"weight": "weight", "shard_bytes": 500, "progress": False}
    text = {"dense": False, "progress": False}
    rankplug.prepare(folder / "rows.csv", folder / "dense", **csv)
    rankplug.prepare(folder / "rows.csv", folder / "dense-standard", scale="standard", **csv)
    rankplug.prepare(folder / "rows.csv", folder / "dense-float32", dtype="float32", **csv)
    rankplug.prepare(folder / "rows.txt", folder / "sparse", **text)
    rankplug.prepare(folder / "rows.txt", folder / "sparse-maxabs", scale="maxabs", **text)
    for name in ("dense", "dense-standard", "dense-float32", "sparse", "sparse-maxabs"):
        data = rankplug.read_data(folder / name)
        found = {
            "X": data.X.toarray() if sparse.issparse(data.X) else data.X,
            "sparse": sparse.issparse(data.X),
            "coef": make_solver("tree-tron", n_threads=1).solve(data).model.coef,
        }
        for key in PARTS:
            if getattr(data, key) is not None:
                found[key] = np.asarray(getattr(data, key))
        if data.scaling is not None:
            found["factor"] = data.scaling.factor
            if data.scaling.shift is not None:
                found["shift"] = data.scaling.shift
        np.savez(folder / f"{name}.npz", **found)
    write_half_prepared(folder)


def write_half_prepared(folder):
    """Preparations that were killed, as the old version left them, and what becomes of them."""
    from rankplug.io import svmlight
    from rankplug.io.prepared import arranging, journal

    svmlight._BLOCK = 1000
    journal._SAVE_BYTES = 1
    arranging._BLOCK_ELEMENTS = 20
    file = folder / "half.txt"
    file.write_text(_shuffled_text(*documents(seed=4, n_queries=30)))
    os.utime(file, (WRITTEN_AT, WRITTEN_AT))
    arguments = {"scale": "maxabs", "shard_bytes": 1000, "progress": False}
    rankplug.prepare(file, folder / "whole", **arguments)

    def is_half_done(state, phase):
        rows = state["position"]["all_rows"] if phase == "read" else state["arranged"]
        return state["phase"] == phase and rows > 60

    for name, phase in (("half-read", "read"), ("half-arranged", "arrange")):
        partial = folder / f".{name}.partial"
        for count in range(1, 1000):
            shutil.rmtree(partial, ignore_errors=True)
            killed_at_write(count, file, folder / name, arguments)
            saved = partial / "state.json"
            if saved.exists() and is_half_done(json.loads(saved.read_text())["state"], phase):
                break
        else:
            raise SystemExit(f"{name} was never reached")


def _shuffled_text(X, y, qid):
    """svmlight text in which the rows of a query stand anywhere."""
    lines = []
    for row in np.random.default_rng(5).permutation(len(y)):
        values = " ".join(f"{i}:{x!r}" for i, x in enumerate(X[row].tolist(), start=1))
        lines.append(f"{y[row]} qid:{qid[row]} {values}\n")
    return "".join(lines)


def killed_at_write(count, file, output, arguments):
    """Prepare in another process, which is killed in the middle of its n-th write."""
    from rankplug.io.prepared import journal

    whole, calls = journal._write_all, itertools.count(1)

    def part(stream, data):
        if next(calls) == count:
            whole(stream, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        whole(stream, data)

    def prepare():
        journal._write_all = part
        rankplug.prepare(file, output, **arguments)

    in_another_process(prepare)


def in_another_process(work):
    """Work there; returns whether the process was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


# --- studies ---


def write_studies(folder):
    X, y, qid = documents(n_queries=15)
    table(X, y, qid).to_csv(folder / "documents.csv", index=False)
    data = rankplug.read_data(folder / "documents.csv")
    journal, database = folder / "journal", f"sqlite:///{folder}/studies.db"
    boosting = {"n_estimators": 3, "n_threads": 1}
    space = {"n_estimators": 3, "max_depth": [2, 3], "learning_rate": {"low": 0.1, "high": 1.0}}
    path = [1e-3, 1e-2, 0.1]
    facts = {}

    def study(name, solver, params, storage, *, killed=False, **arguments):
        arguments |= {"seed": 3, "metric": "ndcg@5", "progress": False}
        place = {"storage": storage, "study_name": name}

        def work(**more):
            return rankplug.tune(make_solver(solver, **params), data, **arguments, **place, **more)

        if killed:
            assert in_another_process(lambda: work(observer=Killer()))
            arguments["n_trials"] = Killer.number
            found = _read_study(database, name)
        else:
            found = _of_result(work())
        stands = {"solver": solver, "params": params, "arguments": arguments}
        facts[name] = {**stands, "in_journal": storage == journal, **found}

    study("of-space", "tree-tron", {}, journal, folds=3, n_trials=5)
    study("of-path", "tree-tron", {}, database, folds=3, n_trials=1, path=path)
    study("of-trees", "xgboost-pairwise", boosting, database, folds=2, n_trials=4, space=space)
    costs = {"costs": ["size"], "scale": "standard"}
    study("of-costs", "cutting-plane", {}, journal, folds=2, n_trials=3, **costs)
    mean = {"reduction": "mean"}
    study("killed", "tree-tron", mean, database, folds=3, n_trials=5, killed=True)
    dump(folder / "studies.json", facts)


class Killer(TuneObserver):
    """Ends its process, without a word, as a trial begins."""

    number = 3

    def trial_started(self, number, params):
        if number == self.number:
            os.kill(os.getpid(), signal.SIGKILL)


def _of_result(result):
    trials = [[one.state, one.params, one.values] for one in result.trials]
    found = {"best_value": result.best_value, "best_params": result.best_params}
    return {**found, "trials": trials, "id": result.study.user_attrs["rankplug.id"]}


def _read_study(storage, name):
    import optuna

    study = optuna.load_study(study_name=name, storage=storage)
    trials = [[one.state.name.lower(), one.params, one.values or []] for one in study.trials]
    found = {"best_value": study.best_value, "best_params": study.best_params}
    return {**found, "trials": trials, "id": study.user_attrs["rankplug.id"]}


# --- runs ---

RECIPE = """\
name: small
data: {train: train.csv, valid: valid.csv, test: test.csv}
metrics: [ndcg@5, map, pairwise_accuracy]
scale: standard
seed: 7
baseline: xgboost-pairwise
solvers:
  - solver: tree-tron
    params: {C: 0.1}
    space: {C: {low: 1e-3, high: 1, log: true}}
  - solver: xgboost-pairwise
    params: {n_estimators: 4, max_depth: 2, n_threads: 1}
    space: {n_estimators: [3, 4, 5]}
"""


def write_runs(folder):
    """A tracked run and a tuned recipe, in one output folder each, with a database for both."""
    import mlflow

    for seed, split in enumerate(("train", "valid", "test")):
        table(*documents(seed=20 + seed)).to_csv(folder / f"{split}.csv", index=False)
    (folder / "small.yaml").write_text(RECIPE)
    uri = f"sqlite:///{folder}/output/mlflow.db"
    with contextlib.chdir(folder):
        command(["run", "small.yaml", "--output", "output", "--quiet"])
        store = ["--tracking-uri", uri, "--register", "small"]
        command(["tune", "small.yaml", "--output", "tuned", "--n-trials", "3", "--quiet", *store])
    facts = {"runs": {}}
    client = mlflow.MlflowClient(uri)
    (experiment,) = client.search_experiments(filter_string="name = 'rankplug'")
    X, _, _ = documents(seed=20)

    def scores(model_id):
        place = client.get_logged_model(model_id).artifact_location
        return mlflow.pyfunc.load_model(place).predict(pd.DataFrame(X, columns=NAMES)).tolist()

    for run in client.search_runs([experiment.experiment_id]):
        outputs = getattr(run.outputs, "model_outputs", []) if run.outputs else []
        facts["runs"][run.info.run_id] = {
            "name": run.info.run_name,
            "parent": run.data.tags.get("mlflow.parentRunId"),
            "status": run.info.status,
            "params": run.data.params,
            "metrics": run.data.metrics,
            "models": {one.model_id: scores(one.model_id) for one in outputs},
        }
    version = client.get_model_version_by_alias("small", "champion")
    facts["champion"] = {"version": int(version.version), "run": version.run_id}
    dump(folder / "runs.json", facts)


def command(arguments):
    sys.argv[0] = "rankplug"  # what MLflow notes as the source of a run
    status = cli.main(arguments)
    assert status == 0, f"rankplug {' '.join(arguments)}: exit status {status}"


# --- recipes ---

RECIPES = {
    "files": """\
data:
  train: data/train.csv
  valid: data/valid.parquet
  test: data/../data/test.txt.gz
  label: grade
  qid: query
  features: [bm25, "page rank", größe]
metrics: ["ndcg@10[gain=linear]", mean_ndcg, "err@5"]
scale: minmax
solvers:
  - solver: tree-tron
    params: {C: 1e-3, reduction: mean, n_threads: null}
""",
    "tune": """\
name: tuned in every way
data: {dataset: web-search, params: {n_queries: 20, dtype: float32, seed: 3}}
metrics: [map]
sanity: false
learning_curve: true
seed: 4294967295
tune:
  n_trials: 30
  timeout: 12.5
  sampler: random
  pruner: none
  folds: 3
  costs: [seconds, size]
  storage: sqlite:///studies.db
solvers:
  - solver: tree-tron
    name: first
    params: {tol: 1e-4, method: tron}
    space: {C: {low: 1e-6, high: 1e+1, log: true}}
  - solver: xgboost-pairwise
    name: second
    space:
      max_depth: {low: 2, high: 8}
      n_estimators: [10, 100]
      learning_rate: 0.3
      zeros: [missing, value]
""",
    "path": """\
data: {dataset: digits}
metrics: [top1_error]
tune: {n_trials: 2, path: true, metric: kendall_tau}
solvers: [{solver: tree-tron}, {solver: larank, params: {kernel: rbf, C: 10}}]
""",
    "folds": """\
data: {dataset: digits-retrieval}
metrics: [ndcg@10, map]
baseline: constant
compare: {folds: 5}
solvers: [{solver: constant}, {solver: single-feature}]
""",
    "seeds": """\
data: {dataset: breast-cancer}
metrics: [pos@top, auc, "precision@3", kendall_tau]
scale: maxabs
compare: {seeds: [0, 1, 2]}
solvers:
  - {solver: toppush, params: {lam: 1e-3, top_k: 5}}
  - {solver: a2dm2, params: {lam: .5, variant: a2dm2-restart}}
""",
}


def write_recipes(folder):
    """The recipes that came along and more, each with what it was understood as."""
    from rankplug.recipe.loader import load_recipe, packaged_recipes

    for name, file in packaged_recipes().items():
        shutil.copy(file, folder / f"{name}.yaml")
    for name, text in RECIPES.items():
        (folder / f"{name}.yaml").write_text(text)
    data = folder / "data"
    data.mkdir()
    for name in ("train.csv", "valid.parquet", "test.txt.gz", "train.txt", "valid.txt", "test.txt"):
        (data / name).touch()  # files have to be there, no more
    letor = [f"data.{split}={data}/{split}.txt" for split in ("train", "valid", "test")]
    for file in sorted(folder.glob("*.yaml")):
        recipe = load_recipe(file, letor if file.stem == "letor" else [])
        (folder / f"{file.stem}.resolved").write_text(recipe.to_yaml())


# --- all of it ---


def dump(file, content):
    file.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def pack(folder, archive):
    """Pack without owners and times of this machine."""

    def neutral(member):
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        member.mtime = WRITTEN_AT
        return member

    # Not gzip: much of it is alike.
    with (
        lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(folder.rglob("*")):
            if path.suffix not in (".png", ".html"):  # large, and for people only
                tar.add(path, path.relative_to(folder), recursive=False, filter=neutral)


def main(output):
    os.environ |= {"LOGNAME": "somebody", "USER": "somebody", "MLFLOW_DISABLE_TELEMETRY": "true"}
    platform.platform = lambda *_: "Linux"
    socket.gethostname = lambda: "somewhere"
    shutil.rmtree(ROOT, ignore_errors=True)
    for name, write in (
        ("recipes", write_recipes),
        ("models", write_models),
        ("mlflow_models", write_mlflow_models),
        ("studies", write_studies),
        ("runs", write_runs),
        ("prepared", write_prepared),  # the last, as it changes the sizes of blocks
    ):
        folder = ROOT / name
        folder.mkdir(parents=True)
        write(folder)
        output.mkdir(parents=True, exist_ok=True)
        pack(folder, output / f"{name}.tar.xz")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
