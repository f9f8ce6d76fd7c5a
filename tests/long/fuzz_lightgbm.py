"""Fuzz what reads LightGBM's text: our checks, and behind them LightGBM's own reader.

``python -m tests.long.fuzz_lightgbm --runs 1000000 --seed 1``: each text is one of models of
several shapes in which one to four things were changed that a reader follows: pointers, sizes,
types, thresholds, lines within trees, whole trees, the head. It is read as `load_model` reads it,
and predicts, in a process of its own. Right is a `ModelFormatError`, or finite scores; everything
else is printed and counted: a signal, another error, more than a minute. It says, too, how many
texts LightGBM itself came to read.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tests.long.mutate_models import MEMORY, NUMBERS, mutate_lines

SECONDS = 60
TOLD_EVERY = 1000  # texts after which the process says how it goes
_VALUES = ("split_gain", "threshold", "internal_value", "internal_weight", "leaf_value")
_VALUES += ("leaf_weight", "leaf_count", "internal_count", "shrinkage")
_POINTERS = ("split_feature", "decision_type", "left_child", "right_child", "num_leaves")
_POINTERS += ("num_cat", "is_linear", "max_feature_idx", "label_index")
_NEAR = ("-9", "-3", "-2", "-1", "0", "1", "2", "3", "4", "5", "6", "8", "10", "14", "15", "16")


def originals() -> list[str]:
    """Texts of models of several shapes: stumps, missing values, depth, many trees."""
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
    texts = []
    for number, shape in enumerate(shapes):
        data = lightgbm.Dataset(X, y, group=[20] * 10)
        booster = lightgbm.train({**quiet, **shape}, data, 1 + number % 4)
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
        elif change < 0.7:
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


def work(folder: Path, seed: int, first: int, last: int, current: Any, pipe: Any) -> None:
    """Be a process that reads one text after the other."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    warnings.simplefilter("ignore")
    texts, counts = originals(), Counter[str]()
    X = np.random.default_rng(1).normal(size=(4, 5))
    for number in range(first, last):
        current.value = number
        random_ = random.Random(f"{seed}/{number}")
        said = attempt(folder, mutate(texts, random_), X)
        word = said.partition(":")[0]
        counts[word] += 1
        if word[:2].isupper():
            print(f"{seed}/{number}: {said}", flush=True)
        if (number + 1) % TOLD_EVERY == 0 or number + 1 == last:
            pipe.send(dict(counts))
            counts.clear()


def run(seed: int, n_runs: int, seconds: float) -> tuple[int, Counter[str]]:
    """Read so many texts, or as many as the time allows."""
    context = multiprocessing.get_context("fork")
    counts, end = Counter[str](), time.monotonic() + seconds
    current = context.Value("q", -1, lock=False)
    ram = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=ram) as name:
        number = 0
        while number < n_runs and time.monotonic() < end:
            ours, theirs = context.Pipe(duplex=False)
            arguments = (Path(name), seed, number, n_runs, current, theirs)
            process = context.Process(target=work, args=arguments)
            process.start()
            theirs.close()
            said = None
            try:
                before = -1
                while time.monotonic() < end:
                    if ours.poll(min(SECONDS, max(0.0, end - time.monotonic()))):
                        counts.update(ours.recv())
                    elif current.value == before:
                        said = "ENDLESS"
                        break
                    before = current.value
                process.kill()
            except EOFError:
                process.join()
                said = f"SIGNAL or exit {process.exitcode}" if process.exitcode else None
            process.join()
            if said is not None:
                counts[said] += 1
                print(f"{seed}/{current.value}: {said}", flush=True)
            number = current.value + 1
    return number, counts


def main() -> int:
    """Read texts; 1 if any of them did harm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    started = time.monotonic()
    n_read, counts = run(args.seed, args.runs, args.seconds)
    harm = sum(count for word, count in counts.items() if word[:2].isupper())
    by_lightgbm = sum(count for word, count in counts.items() if word != "refused")
    print(f"{n_read:,} texts, seed {args.seed}: {dict(counts)}")
    print(f"{by_lightgbm:,} read by LightGBM, {harm} did harm", end="")
    print(f"; {time.monotonic() - started:.0f} s")
    return min(harm, 1)


if __name__ == "__main__":
    sys.exit(main())
