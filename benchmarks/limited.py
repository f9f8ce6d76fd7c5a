"""Train on mapped features with little private memory: ``python -m benchmarks.limited FOLDER``."""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import status_bytes
from benchmarks.speed import tree_tron
from rankplug.data import RankingData


def open_data(folder: Path) -> RankingData:
    """What `benchmarks.mapped` saved, all of it mapped."""
    X, relevance, query_ptr = (
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("X", "relevance", "query_ptr")
    )
    return RankingData(X, relevance, query_ptr, np.arange(len(query_ptr) - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--C", type=float, required=True)
    parser.add_argument("--share", type=float, required=True, help="of the bytes of the features")
    arguments = parser.parse_args()
    data, solver = open_data(arguments.folder), tree_tron(arguments.C)
    # What is loaded and kept at first use is the interpreter's own, not the solver's.
    solver.solve(data.take_queries(range(10)))
    base = status_bytes("VmData")
    allowed = int(arguments.share * data.X.nbytes)
    resource.setrlimit(resource.RLIMIT_DATA, (base + allowed, base + allowed))
    started = time.perf_counter()
    result = solver.solve(data)
    row = {
        "base_bytes": base,
        "allowed_bytes": allowed,
        "objective": result.objective,
        "n_passes": result.n_passes,
        "wall_s": time.perf_counter() - started,
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
