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
    with (
        open_pairs(in_memory, "sum", n_threads) as shards,
        open_pairs(in_file, "sum", n_threads) as mapped_shards,
        open_pairs(in_file, "sum", n_threads) as announcing,
    ):
        _announce(announcing, n_threads)
        calls = {"memory": _product(shards), "mapped": _product(mapped_shards)}
        samples = alternate(calls, rounds)
        for storage, of_storage in samples.items():
            ratio = of_storage.ratio(samples["memory"], "wall")
            yield {"storage": storage, "cache": "warm", **of_storage.columns(), "ratio": ratio}
        cold = _cold({"no": calls["mapped"], "yes": _product(announcing)}, in_file, path, rounds)
        for announced, of_cold in cold.items():
            row = {"storage": "mapped", "cache": "cold", "announced": announced}
            yield {**row, **of_cold.columns(), "ratio": of_cold.ratio(cold["no"], "wall")}


def _product(shards: Any) -> Callable[[], Any]:
    loss = SquaredHinge(shards)
    loss.move_to(None)
    product = partial(loss.hessian_product, np.ones(loss.n_columns))
    product()
    return product


def _announce(shards: Any, n_threads: int) -> None:
    """Before a shard is read, have the system told which one comes after those that are read."""
    matrices = [shard.matrix for shard in shards.shards]
    for i, matrix in enumerate(matrices):
        following = matrices[(i + n_threads) % len(matrices)].X
        matrix.laplacian = partial(_after_announcement, following, matrix.laplacian)


def _after_announcement(X: Any, laplacian: Callable[..., Any], *arguments: Any) -> Any:
    begin = X.ctypes.data - np.frombuffer(X._mmap, np.uint8, 1).ctypes.data
    start = begin - begin % mmap.PAGESIZE
    X._mmap.madvise(mmap.MADV_WILLNEED, start, begin + X.nbytes - start)
    return laplacian(*arguments)


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
