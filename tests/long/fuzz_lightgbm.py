"""Fuzz what reads LightGBM's text: our checks, and behind them LightGBM's own reader.

``python -m tests.long.fuzz_lightgbm --runs 1000000 --seed 1``: each text is one of models of
several shapes in which one to four things were changed that a reader follows: pointers, sizes,
types, thresholds, sets of categories, lines within trees, whole trees, the head. It is read as
`load_model` reads it, and predicts, in a process of its own. Right is a `ModelFormatError`, or
finite scores; everything else is printed and counted: a signal, another error, more than a minute.
It says, too, how many texts LightGBM itself came to read.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from tests.long.mutate_models import HUGE, MEMORY, NUMBERS, mutate_lines
from tests.long.workers import attack_all, is_harm, limit_memory, sum_up

SECONDS = 60
CODED = 2  # the feature of categories
N_CATEGORIES = 70  # three numbers of 32 categories each
_VALUES = ("split_gain", "threshold", "internal_value", "internal_weight", "leaf_value")
_VALUES += ("leaf_weight", "leaf_count", "internal_count", "shrinkage")
_POINTERS = ("split_feature", "decision_type", "left_child", "right_child", "num_leaves")
_POINTERS += ("num_cat", "is_linear", "max_feature_idx", "label_index")
_SETS = ("cat_boundaries", "cat_threshold", "threshold", "decision_type", "num_cat")
_NEAR = ("-9", "-3", "-2", "-1", "0", "1", "2", "3", "4", "5", "6", "8", "10", "14", "15", "16")


def originals() -> list[str]:
    """Texts of models of several shapes: stumps, missing values, categories, depth, many trees."""
    import lightgbm

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.digitize(np.nan_to_num(X[:, 0]) + rng.normal(size=200), [-1.0, 1.0]).astype(float)
    quiet: dict[str, Any] = {"verbose": -1, "num_threads": 1, "deterministic": True}
    shapes: tuple[dict[str, Any], ...] = (
        {"num_leaves": 4, "objective": "lambdarank"},
        {"num_leaves": 31, "min_data_in_leaf": 2, "objective": "lambdarank"},
        {"num_leaves": 2, "objective": "regression"},
        {"num_leaves": 8, "zero_as_missing": True, "objective": "regression"},
        {"num_leaves": 8, "use_missing": False, "objective": "rank_xendcg"},
        {"min_data_in_leaf": 300, "objective": "regression"},  # trees of a leaf
        {"num_leaves": 8, "objective": "huber", "monotone_constraints": [1, 0, 0, 0, -1]},
    )
    sets = {"min_data_per_group": 1, "cat_smooth": 0.0, "max_bin": 200, "min_data_in_leaf": 2}
    of_categories: tuple[dict[str, Any], ...] = (
        {"num_leaves": 8, "objective": "lambdarank", "max_cat_to_onehot": 1, **sets},
        {"num_leaves": 4, "objective": "regression", "max_cat_to_onehot": 100, **sets},
    )
    texts = []
    for number, shape in enumerate(shapes):
        data = lightgbm.Dataset(X, y, group=[20] * 10)
        booster = lightgbm.train({**quiet, **shape}, data, 1 + number % 4)
        texts.append(booster.model_to_string())
    X[:, CODED] = rng.integers(0, N_CATEGORIES, 200)
    y = (X[:, CODED] % 3) + (np.nan_to_num(X[:, 0]) > 1)
    for shape in of_categories:
        data = lightgbm.Dataset(X, y, group=[20] * 10, categorical_feature=[CODED])
        booster = lightgbm.train({**quiet, **shape}, data, 2)
        texts.append(booster.model_to_string())
    return texts


def mutate(texts: list[str], random_: random.Random) -> str:
    """Change one to four things, and make the sizes of trees right, mostly."""
    text = random_.choice(texts)
    for _ in range(random_.choice((1, 1, 1, 2, 2, 3, 4))):
        change = random_.random()
        if change < 0.35:
            text = _change_word(text, random_, _POINTERS, _NEAR)
        elif change < 0.6:
            text = _change_word(text, random_, _VALUES, (*map(str, NUMBERS), "nan", "inf", "-inf"))
        elif change < 0.67:
            text = _change_word(
                text, random_, _SETS, (*_NEAR, *map(str, HUGE), "0.5", "4294967295")
            )
        elif change < 0.72:
            text = _change_split(text, random_)
        elif change < 0.8:
            text = _change_trees(text, random_.choice(texts), random_)
        else:
            text = mutate_lines(text, random_)
    return _right_sizes(text) if random_.random() < 0.95 else text


def _change_word(
    text: str, random_: random.Random, keys: tuple[str, ...], words: tuple[str, ...]
) -> str:
    """Another word in one of the lines of these keys."""
    key = random_.choice(keys)
    found = list(re.finditer(rf"^{key}=(.*)$", text, flags=re.MULTILINE))
    if not found:
        return text
    line = random_.choice(found)
    values = line[1].split(" ")
    values[random_.randrange(len(values))] = random_.choice(words)
    if random_.random() < 0.05:
        values.append(random_.choice(words))
    return f"{text[: line.start(1)]}{' '.join(values)}{text[line.end(1) :]}"


def _change_split(text: str, random_: random.Random) -> str:
    """A split by a threshold that is one by a set of categories, or the other way round."""
    head, trees, rest = _split(text)
    if not trees:
        return text
    place = random_.randrange(len(trees))
    lines = dict(line.partition("=")[::2] for line in trees[place].split("\n"))
    kinds, thresholds = (lines.get(key, "").split(" ") for key in ("decision_type", "threshold"))
    node = random_.randrange(min(len(kinds), len(thresholds)))
    kinds[node] = random_.choice(("1", "3", "9", "11", "0", "2"))
    thresholds[node] = random_.choice(_NEAR)
    for key, words in (("decision_type", kinds), ("threshold", thresholds)):
        line = f"{key}={' '.join(words)}"
        trees[place] = re.sub(rf"^{key}=.*$", line, trees[place], flags=re.MULTILINE)
    return head + "".join(trees) + rest


def _change_trees(text: str, other: str, random_: random.Random) -> str:
    """Trees twice, left out, in another order, or those of another model."""
    head, trees, rest = _split(text)
    more = _split(other)[1]
    if not trees or not more:
        return text
    place = random_.randrange(len(trees))
    changed = random_.choice(
        (
            [*trees[:place], *trees[place + 1 :]],
            [*trees, trees[place]],
            [*trees[:place], random_.choice(more), *trees[place + 1 :]],
            trees[::-1],
            trees * random_.choice((2, 20)),
        )
    )
    if random_.random() < 0.8:
        changed = [re.sub(r"^Tree=\d+", f"Tree={i}", tree) for i, tree in enumerate(changed)]
    return head + "".join(changed) + rest


def _split(text: str) -> tuple[str, list[str], str]:
    body, mark, rest = text.partition("end of trees\n")
    head, *trees = re.split(r"^(?=Tree=)", body, flags=re.MULTILINE)
    return head, trees, mark + rest


def _right_sizes(text: str) -> str:
    sizes = " ".join(str(len(tree.encode())) for tree in _split(text)[1])
    return re.sub(r"^tree_sizes=.*$", f"tree_sizes={sizes}", text, count=1, flags=re.MULTILINE)


def attempt(folder: Path, text: str, X: Any) -> str:
    """Read the text and predict; what happened in a word."""
    from rankplug.exceptions import DataError, ModelFormatError
    from rankplug_plugins.boosting.lightgbm_model import LightGBMModel

    (folder / "model.txt").write_text(text, encoding="utf-8", errors="replace")
    try:
        model = LightGBMModel._read(folder, {})
    except ModelFormatError:
        return "refused"
    except BaseException:
        return "RAW at reading: " + traceback.format_exc()
    try:
        if model.n_features > 1000:
            return "read, too wide"
        scores = model.predict(np.resize(X, (len(X), model.n_features)))
        model.feature_importances()
    except DataError:
        return "refused at prediction"
    except BaseException:
        return "RAW at prediction: " + traceback.format_exc()
    return "scored" if scores.shape == (len(X),) and np.isfinite(scores).all() else "WRONG scores"


def work(folder: Path, seed: int, first: int, last: int, pipe: Any) -> None:
    """Be a process that reads one text after the other."""
    limit_memory(MEMORY)
    warnings.simplefilter("ignore")
    texts = originals()
    X = np.random.default_rng(1).normal(size=(5, 5))
    X[:, CODED] = [-1.0, 3.0, 69.0, 1e10, np.nan]
    for number in range(first, last):
        pipe.send((number, None))
        pipe.send((number, attempt(folder, mutate(texts, random.Random(f"{seed}/{number}")), X)))
    pipe.close()


def run(seed: int, n_texts: int, seconds: float = float("inf")) -> Counter[str]:
    """Read so many texts, or as many as the time allows; what happened in words."""
    counts, end = Counter[str](), time.monotonic() + seconds
    ram = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with (
        tempfile.TemporaryDirectory(dir=ram) as name,
        closing(attack_all(work, (Path(name), seed), n_texts, SECONDS)) as attacks,
    ):
        for number, said in attacks:
            counts[said.partition(":")[0]] += 1
            if is_harm(said):
                print(f"{seed}/{number}: {said}", flush=True)
            if time.monotonic() > end:
                break
    return counts


def main() -> int:
    """Read texts; 1 if any of them did harm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    started = time.monotonic()
    counts = run(args.seed, args.runs, args.seconds)
    print(f"{counts.total() - counts['refused']:,} came to LightGBM itself")
    return min(sum_up(f"texts, seed {args.seed}", counts, started), 1)


if __name__ == "__main__":
    sys.exit(main())
