"""Features in a mapped file against features in memory: time of a pass, and memory needed."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.limited import open_data
from benchmarks.measure import Samples, Timing, alternate, timed
from benchmarks.problems import web_search
from benchmarks.speed import sizes, tree_tron
from rankplug.data import RankingData
from rankplug.objectives import SquaredHinge, open_pairs

Row = dict[str, Any]

_BLOCK_BYTES = 2**23


def mapped(tiny: bool, rounds: int) -> Iterator[Row]:
    """Seconds of a Hessian product, and a solve with a tenth of the features' bytes allowed."""
    problem = web_search(40, 20) if tiny else web_search(7000, 140)
    in_memory = problem.train
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "X.npy", in_memory.X)
        np.save(folder / "relevance.npy", in_memory.relevance)
        np.save(folder / "query_ptr.npy", in_memory.query_ptr)
        in_file = replace(in_memory, X=open_data(folder).X)
        common = {"problem": problem.name, **sizes(in_memory), "X_bytes": in_memory.X.nbytes}
        for n_threads in (1, 2):
            for row in _passes(in_memory, in_file, folder / "X.npy", n_threads, rounds):
                yield {**common, "n_threads": n_threads, **row}
        # Where the features are small, other things are not.
        share = 100.0 if tiny else 0.1
        yield {**common, "n_threads": 1, **_limited(in_memory, folder, problem.Cs[-1], share)}


def _passes(
    in_memory: RankingData, in_file: RankingData, path: Path, n_threads: int, rounds: int
) -> Iterator[Row]:
    """Warm passes beside those in memory, cold ones beside reading the file and no more."""
    with (
        open_pairs(in_memory, "sum", n_threads) as shards,
        open_pairs(in_file, "sum", n_threads) as mapped_shards,
    ):
        calls = {"memory": _product(shards), "mapped": _product(mapped_shards)}
        yield from _rows("warm", alternate(calls, rounds), "memory")
        calls = {"reading": partial(_read, path), "mapped": calls["mapped"]}
        yield from _rows("cold", _cold(calls, in_file, path, rounds), "reading")


def _rows(cache: str, samples: dict[str, Samples], base: str) -> Iterator[Row]:
    for storage, one in samples.items():
        ratio = one.ratio(samples[base], "wall")
        yield {"storage": storage, "cache": cache, **one.columns(), "ratio": ratio}


def _product(shards: Any) -> Callable[[], Any]:
    loss = SquaredHinge(shards)
    loss.move_to(None)
    product = partial(loss.hessian_product, np.ones(loss.n_columns))
    product()
    return product


def _read(path: Path) -> None:
    block = bytearray(_BLOCK_BYTES)
    with path.open("rb", buffering=0) as file:
        while file.readinto(block):
            pass


def _cold(
    calls: dict[str, Callable[[], Any]], data: RankingData, path: Path, rounds: int
) -> dict[str, Samples]:
    """Each time with nothing of the file in the page cache."""
    timings: dict[str, list[Timing]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            _drop(data, path)
            timings[name].append(timed(call)[1])
    return {name: Samples(None, kept) for name, kept in timings.items()}


def _drop(data: RankingData, path: Path) -> None:
    """Have the file's pages dropped: first from this process, then from the cache."""
    X: Any = data.X
    X._mmap.madvise(mmap.MADV_DONTNEED)
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def _limited(in_memory: RankingData, folder: Path, C: float, share: float) -> Row:
    """A solve that may take a share of the features' bytes as private memory of its own."""
    expected = tree_tron(C).solve(in_memory)
    command = [sys.executable, "-m", "benchmarks.limited", str(folder)]
    options = ["--C", str(C), "--share", str(share)]
    found = json.loads(subprocess.check_output([*command, *options]))
    assert expected.objective is not None
    difference = abs(found["objective"] - expected.objective) / expected.objective
    return {"storage": "mapped", "C": C, "status": "limited", **found, "difference": difference}
