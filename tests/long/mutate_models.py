"""Forge saved models of every kind at random, and count what loading and predicting does.

``python -m tests.long.mutate_models --models 16000 --seed 1``: each model is one of every kind in
which arrays, numbers, texts and lists of its files were changed where they stand: other shapes,
empty, huge, of another type, NaN, negative, out of range, nested; digests are made right again.
It is loaded and predicts in a process with bounded memory. Right is a `ModelFormatError` or
`DataError`, or finite scores of the right shape; everything else is printed and counted: a signal,
another error, a lack of memory, more than a minute.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tests.long.workers import attack_all, is_harm, limit_memory, sum_up

N_FEATURES = 4
MEMORY = 3 << 30  # bytes; all models are small
SECONDS = 60  # for one model; a machine may be busy
HUGE = (10**6, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 10**10, 2**62, 2**63, 10**30, 10**400)
NUMBERS = (0, -1, 1, 2, 3, 7, 255, *HUGE, 0.5, -0.0, 1e-320, 1e300, -1e300, 1e39)
TEXTS = (
    "",
    "x",
    "0",
    "-1",
    "1e5",
    "nan",
    "inf",
    "99999999999",
    "2147483648",
    "é",
    "\0",
    "a" * 5000,
)
OTHERS = (None, True, False, [], {}, [[]], [[], 1, 2], {"x": 1}, [None], ["x"])
TYPES = (
    "f2",
    "f4",
    "f8",
    ">f8",
    "f16",
    "i1",
    "i4",
    "i8",
    ">i4",
    "u1",
    "u8",
    "b1",
    "U3",
    "c16",
    "M8[s]",
)


def originals(folder: Path) -> list[Path]:
    """Save an honest model of every kind, and of every form that kinds have."""
    import skops.io
    from scipy import sparse
    from sklearn.ensemble import (
        GradientBoostingRegressor,
        HistGradientBoostingRegressor,
        RandomForestRegressor,
    )
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import PoissonRegressor, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
    from sklearn.svm import SVR

    from rankplug import LabelRankingData, Ranker, RankingData, make_solver
    from rankplug.data import Scaling
    from rankplug.kernels import Kernel
    from rankplug.models import (
        AdjustedModel,
        KernelModel,
        LabelLinearModel,
        LinearModel,
        ScaledModel,
        Turn,
    )
    from rankplug.models.pipelines import PipelineModel
    from rankplug_plugins.baselines import RegressorModel

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, N_FEATURES))
    y = np.digitize(X[:, 0] + rng.normal(size=60), [-1.0, 1.0]).astype(float)
    data = RankingData.from_arrays(X, y, np.repeat(np.arange(6), 10))
    labels = LabelRankingData.from_arrays(X, rng.normal(size=(60, 3)), labels=["a", "b", "c"])
    linear = LinearModel(rng.normal(size=N_FEATURES), ["a", "b", "c", "d"])
    scalers = [StandardScaler(), MinMaxScaler(clip=True), MaxAbsScaler()]
    regressors = {
        "forest": RandomForestRegressor(3, max_depth=4, random_state=0),
        "boosted": GradientBoostingRegressor(n_estimators=3, random_state=0),
        "histograms": HistGradientBoostingRegressor(max_iter=3),
        "svr": SVR(),
        "kernel-ridge": KernelRidge(kernel="poly"),
        "poisson": PoissonRegressor(),
        "scaled-ridge": make_pipeline(StandardScaler(), MinMaxScaler(clip=True), Ridge()),
    }
    models: dict[str, Any] = {
        "linear": linear,
        "labels": LabelLinearModel(rng.normal(size=(3, N_FEATURES)), ["x", "y", "z"]),
        "kernel": KernelModel(Kernel("poly", 0.5, 2, 1.0), X, rng.normal(size=60)),
        "kernel-sparse": KernelModel(
            Kernel("rbf", 0.5), sparse.csr_array(np.where(X > 0, X, 0)), np.ones((60, 2)), [7, 8]
        ),
        "scaled": ScaledModel(linear, Scaling(np.ones(N_FEATURES), np.full(N_FEATURES, 0.5))),
        "pipeline": PipelineModel([(str(i), one.fit(X)) for i, one in enumerate(scalers)], linear),
    }
    filled = Scaling(np.ones(N_FEATURES), np.full(N_FEATURES, 0.5), np.zeros(N_FEATURES))
    models["imputed"] = ScaledModel(linear, filled)
    turn = Turn(2.0, ((-1.0, 0.5), (1.0, 0.0)))
    models["adjusted"] = AdjustedModel(models["imputed"], {0: turn, 3: Turn(0.0)})
    for name, steps in transformers().items():
        pipeline = make_pipeline(*steps, Ranker()).fit(X, y)
        models[f"steps-{name}"] = PipelineModel(pipeline.steps[:-1], pipeline[-1].model_)
    for name, regressor in regressors.items():
        models[f"regressor-{name}"] = RegressorModel(regressor.fit(X, y))
    few = {"n_estimators": 3, "n_threads": 1}
    solved = {
        "xgboost": ("xgboost-pairwise", data), "xgboost-labels": ("xgboost-pairwise", labels),
        "linear-then-trees": ("linear-then-boost", data),
        "lightgbm": ("lightgbm-lambdarank", data), "trees": ("catboost", data),
    }  # fmt: skip
    for name, (solver, examples) in solved.items():
        smallest = {"min_child_samples": 2} if name == "lightgbm" else {}
        models[name] = make_solver(solver, **few, **smallest).solve(examples, random_state=0).model
    maps: dict[str, Any] = {
        "leaves": {"leaves": {"n_estimators": 3}},
        "forest": {"leaves": {"trees": "random-forest", "n_estimators": 3}, "identity": {}},
        "splines": {"splines": {"n_knots": 4}},
        "kernels": {"nystroem": {"n_components": 5}, "fourier": {"n_components": 6}},
    }
    for name, columns in maps.items():
        mapped = make_solver("mapped", map=columns, C=1.0)
        models[f"mapped-{name}"] = mapped.solve(data, random_state=0).model
    models["mapped-labels"] = mapped.solve(labels, random_state=0).model
    boosted = make_solver("mapped", map=columns, solver={"lightgbm-lambdarank": few})
    models["mapped-boosted"] = boosted.solve(data, random_state=0).model
    steps = [("scaled", scalers[0]), ("bounded", scalers[1])]
    models["pipeline-of-maps"] = PipelineModel(steps, models["mapped-forest"])
    coded = np.column_stack([rng.integers(1, 40, 60), X[:, 1:]])
    values = {0: tuple(f"v{k}" for k in range(40))}
    grouped = RankingData.from_arrays(
        coded, coded[:, 0] % 3, np.repeat(np.arange(6), 10), categories=values
    )
    for name in ("xgboost-pairwise", "lightgbm-all-pairs"):
        params = {"min_data_per_group": 1, "cat_smooth": 0.0, "max_cat_to_onehot": 1}
        more: dict[str, Any] = {"min_child_weight": 0}
        if name.startswith("lightgbm"):
            more = {"min_child_samples": 1, "params": params}
        solver = make_solver(name, **few, **more)
        models[f"categories-{name}"] = solver.solve(grouped, random_state=0).model
    for name, model in models.items():
        model.save(folder / name)
    for name, regressor in regressors.items():  # as 0.1 saved them
        old = folder / f"skops-{name}"
        shutil.copytree(folder / f"regressor-{name}", old)
        for file in old.glob("*.npz"):
            file.unlink()
        skops.io.dump(regressor, old / "regressor.skops")
        header = json.loads((old / "model.json").read_text())
        (old / "model.json").write_text(json.dumps(header | {"model": {}}))
    return sorted(folder.iterdir())


def transformers() -> dict[str, list[Any]]:
    """Steps of pipelines, every kind of them somewhere."""
    from sklearn.compose import make_column_transformer
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import (
        KBinsDiscretizer,
        MinMaxScaler,
        Normalizer,
        OneHotEncoder,
        OrdinalEncoder,
        PolynomialFeatures,
        PowerTransformer,
        QuantileTransformer,
        RobustScaler,
        SplineTransformer,
    )

    bins = KBinsDiscretizer(3, encode="ordinal", strategy="uniform")
    return {
        "scalers": [RobustScaler(), PowerTransformer(), Normalizer(), VarianceThreshold()],
        "quantiles": [QuantileTransformer(n_quantiles=9, output_distribution="normal")],
        "powers": [PolynomialFeatures((1, 3)), MinMaxScaler()],
        "splines": [SplineTransformer(4, extrapolation="linear")],
        "imputer": [SimpleImputer(add_indicator=True), RobustScaler()],
        "encoders": [bins, OneHotEncoder(handle_unknown="ignore", max_categories=2)],
        "ordinal": [bins, OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)],
        "columns": [
            make_column_transformer(
                (make_pipeline(SimpleImputer(), PolynomialFeatures(2)), [0, 1]),
                (make_pipeline(bins, OneHotEncoder(handle_unknown="ignore")), [2]),
                remainder="passthrough",
            ),
            make_union(RobustScaler(), KBinsDiscretizer(2, strategy="uniform")),
        ],
    }


def mutate(folder: Path, random_: random.Random) -> None:
    """Change one to three things in the files of a model, and make the digests right."""
    header = json.loads((folder / "model.json").read_text())
    files = [file for file in sorted(folder.iterdir()) if file.name != "model.json"]
    for _ in range(random_.choice((1, 1, 1, 2, 3))):
        if random_.random() < 0.25:
            key = random_.choice(("model", "model", "model", "n_features", "kind", "feature_names"))
            header[key] = mutate_value(header[key], random_)
            continue
        file = random_.choice(files)
        if file.suffix in (".npz", ".skops"):
            mutate_archive(file, random_)
        elif file.suffix == ".json":
            content = mutate_value(json.loads(file.read_text(encoding="utf-8")), random_)
            file.write_text(json.dumps(content, separators=(",", ":"), ensure_ascii=False))
        else:
            file.write_text(mutate_lines(file.read_text(), random_), encoding="utf-8")
    sign(folder, header, files)


def sign(folder: Path, header: dict[str, Any], files: list[Path]) -> None:
    header["files"] = {file.name: sha256(file.read_bytes()).hexdigest() for file in files}
    header.pop("sha256", None)
    text = json.dumps(header, sort_keys=True)
    header["sha256"] = sha256(text.encode()).hexdigest()
    (folder / "model.json").write_text(json.dumps(header))


def mutate_value(value: Any, random_: random.Random) -> Any:
    """A JSON value of which one part, anywhere in it, is another."""
    if isinstance(value, dict) and value and random_.random() < 0.93:
        key = random_.choice(list(value))
        if random_.random() < 0.04:
            return {one: part for one, part in value.items() if one != key}
        if random_.random() < 0.02:
            return {**value, "more": value[key]}
        return {**value, key: mutate_value(value[key], random_)}
    if isinstance(value, list) and value:
        return mutate_list(value, random_)
    return other_value(value, random_)


def mutate_list(value: list[Any], random_: random.Random) -> list[Any]:
    """A list with another part, fewer or more, or within another list."""
    if value:
        place = random_.randrange(len(value))
        change = random_.random()
        if change < 0.7:
            return [*value[:place], mutate_value(value[place], random_), *value[place + 1 :]]
        if change < 0.8:
            return value[:place]
        if change < 0.9:
            return value + value[place:]
    return [value]


def other_value(value: Any, random_: random.Random) -> Any:
    """Something in place of a number, a text or an empty list."""
    if isinstance(value, str) and value[:1] in ("[", "{") and random_.random() < 0.7:
        try:
            return json.dumps(mutate_value(json.loads(value), random_))
        except ValueError:
            return "["
    if isinstance(value, str) and random_.random() < 0.7:
        if re.fullmatch(r"-?[\d.E+-]+", value):
            return str(random_.choice(NUMBERS[:-4]))
        return random_.choice(TEXTS)
    if isinstance(value, int | float) and random_.random() < 0.8:
        return random_.choice((*NUMBERS, value + 1, -value, value / 3 if abs(value) < 1e9 else 0))
    return random_.choice((*NUMBERS, *TEXTS, *OTHERS))


def mutate_archive(file: Path, random_: random.Random) -> None:
    """Change an array, or what describes the objects, in a zip file."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    name = random_.choice([*sorted(contents), "none.npy"])
    if "schema.json" in contents and random_.random() < 0.5:
        name = "schema.json"
    if name == "schema.json":
        contents[name] = json.dumps(mutate_value(json.loads(contents[name]), random_)).encode()
    elif random_.random() < 0.05:
        contents.pop(name, None)
    else:
        contents[name] = mutate_array(contents.get(name, b""), random_)
    with zipfile.ZipFile(file, "w") as archive:
        for one, content in contents.items():
            archive.writestr(one, content)


def mutate_array(content: bytes, random_: random.Random) -> bytes:
    try:
        array = np.load(BytesIO(content))
    except Exception:  # changed before, or empty
        return content[: random_.randrange(len(content) + 1)]
    if random_.random() < 0.1:  # what the header says of it
        old, new = random_.choice(
            ((b"(", b"(9, "), (b"f8", b"i8"), (b"False", b"True "), (b"'", b""))
        )
        return content.replace(old, new, 1)
    with np.errstate(all="ignore"):
        stream = BytesIO()
        np.save(stream, change_array(array, random_))
    return stream.getvalue()


def change_array(array: Any, random_: random.Random) -> Any:
    """The array with another shape, type, or number in it."""
    kind = random_.choice(("shape", "type", "value", "value", "value"))
    if array.dtype.names and kind != "shape":
        array = array.copy()
        if array.size:
            field = random_.choice(array.dtype.names)
            array[field] = change_values(array[field], random_)
        return array
    if kind == "value":
        return change_values(array, random_)
    if kind == "type":
        try:
            return array.astype(random_.choice(TYPES))
        except (TypeError, ValueError):
            return array.astype("U3")
    shapes: tuple[Any, ...] = (
        array.ravel()[:0], np.atleast_1d(array)[:1], array.ravel()[:-1], array[None],
        array[..., None], np.concatenate([array.ravel()] * 2), np.resize(array, (300_000,)),
        np.resize(array, (3, 5)), np.resize(array, ()), array.T, np.resize(array, (0, 3)),
    )  # fmt: skip
    return random_.choice(shapes)


def change_values(array: Any, random_: random.Random) -> Any:
    array = array.copy()
    if not array.size or array.dtype.kind not in "iufb":
        return array.ravel()[::-1]
    place = np.unravel_index(random_.randrange(array.size), array.shape)
    where = random_.choice((place, place, place, ...))
    value = random_.choice((*NUMBERS, float("nan"), float("inf"), -float("inf"), array.size))
    if array.dtype.kind in "iu" and random_.random() < 0.5:
        value = int(array[place]) + random_.choice((-1, 1, -(10**5), 10**5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            array[where] = value
        except (OverflowError, ValueError, TypeError):
            array[where] = np.array(-1).astype(array.dtype)
    return array


def mutate_lines(text: str, random_: random.Random) -> str:
    """Change a line of LightGBM's text, and make the sizes of trees right."""
    lines = text.split("\n")
    place = random_.randrange(len(lines) - 1)
    if random_.random() < 0.7:  # within the trees, not the parameters behind them
        end = lines.index("end of trees") if "end of trees" in lines else len(lines)
        place = random_.randrange(max(end, 1))
    key, sign_, value = lines[place].partition("=")
    change = random_.random()
    if change < 0.55 and sign_:
        words = value.split(" ")
        word = random_.randrange(len(words))
        options = (*map(str, NUMBERS), *TEXTS, words[word] + " 1", "0x1", "1e999", "-")
        words[word : word + 1] = random_.choice(([random_.choice(options)], [], words))
        lines[place] = f"{key}={' '.join(words)}"
    elif change < 0.65:
        del lines[place]
    elif change < 0.8:
        lines.insert(place, random_.choice(lines))
    else:
        more = ("[num_threads: 100000]", "[min_gain_to_split: 0]", "x", "x=1", "num_leaves", "tree")
        more += ("leaf_features=1 2", "num_features=1", "cat_boundaries=0 9", "average_output", "=")
        lines.insert(place, random_.choice(more))
    text = "\n".join(lines)
    trees = re.split(r"^(?=Tree=)", text, flags=re.MULTILINE)[1:]
    if trees and random_.random() < 0.9:
        trees[-1] = trees[-1].partition("end of trees\n")[0]
        sizes = " ".join(str(len(tree.encode())) for tree in trees)
        text = re.sub(r"^tree_sizes=.*$", f"tree_sizes={sizes}", text, flags=re.MULTILINE)
    return text


def attempt(folder: Path, X: Any) -> str:
    """Load the model and predict; what happened in a word."""
    from rankplug import load_model
    from rankplug.exceptions import DataError, ModelFormatError

    try:
        model = load_model(folder)
    except ModelFormatError:
        return "refused"
    except MemoryError:
        return "MEMORY at loading: " + traceback.format_exc()
    except BaseException:
        return "RAW at loading: " + traceback.format_exc()
    try:
        wide = model.n_features != X.shape[1]
        scores = model.predict(np.ones((2, min(model.n_features, 1000))) if wide else X)
        model.feature_importances()
    except DataError:
        return "refused at prediction"
    except MemoryError:
        return "MEMORY at prediction: " + traceback.format_exc()
    except BaseException:
        return "RAW at prediction: " + traceback.format_exc()
    right = (len(scores),) if model.n_labels is None else (len(scores), model.n_labels)
    return "scored" if scores.shape == right and np.isfinite(scores).all() else "WRONG scores"


def work(sources: list[Path], folder: Path, seed: int, first: int, last: int, pipe: Any) -> None:
    """Be a process that tries models one after the other, and says each before it is tried."""
    limit_memory(MEMORY)
    warnings.simplefilter("ignore")
    X = np.linspace(-2.0, 2.0, 3 * N_FEATURES).reshape(3, -1)
    for number in range(first, last):
        random_ = random.Random(f"{seed}/{number}")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sources[number % len(sources)], folder)
        mutate(folder, random_)
        pipe.send((number, None))  # in case that there will be no more
        pipe.send((number, attempt(folder, X)))
    pipe.close()


def run(sources: list[Path], folder: Path, seed: int, n_models: int, keep: Path | None) -> Counter:
    """Try so many models; a process that one of them ends is replaced by another."""
    counts: Counter[str] = Counter()
    for number, said in attack_all(work, (sources, folder, seed), n_models, SECONDS):
        counts[said.partition(":")[0]] += 1
        if is_harm(said):
            print(f"{sources[number % len(sources)].name} {seed}/{number}: {said}", flush=True)
            if keep is not None:
                shutil.copytree(folder, keep / f"{seed}-{number}", dirs_exist_ok=True)
    return counts


def main(arguments: list[str] | None = None) -> int:
    """Try models; 1 if one of them did harm."""
    parser = argparse.ArgumentParser(prog="python -m tests.long.mutate_models", description=__doc__)
    parser.add_argument("--models", type=int, default=16_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="kinds whose name begins so")
    parser.add_argument("--keep", type=Path, help="folder for models that did harm")
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        sources = [one for one in save_originals(Path(name)) if one.name.startswith(args.only)]
        counts = run(sources, Path(name, "forged"), args.seed, args.models, args.keep)
    harm = sum_up(f"models of {len(sources)} forms, seed {args.seed}", counts, start)
    return int(harm > 0 or counts.total() != args.models)


def save_originals(folder: Path) -> list[Path]:
    """Honest models, made in a process of its own: libraries' threads do not survive forks."""
    (folder / "honest").mkdir()
    process = multiprocessing.get_context("fork").Process(
        target=originals, args=(folder / "honest",)
    )
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError("the honest models could not be made")
    return sorted((folder / "honest").iterdir())


if __name__ == "__main__":
    sys.exit(main())
