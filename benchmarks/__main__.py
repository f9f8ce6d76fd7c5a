"""``python -m benchmarks EXPERIMENT ...``: measure, write CSV, plot."""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.measure import ONE_THREAD

_RESULTS = Path(__file__).parent / "results"

_MODULES = {
    "passes": "speed",
    "path": "speed",
    "threads": "speed",
    "memory": "speed",
    "small": "speed",
    "mapped": "mapped",
    "rivals": "versus",
    "rows": "versus",
    "levels": "versus",
    "l1": "l1",
    "leaves": "leaves",
    "housing": "leaves",
    "label_ranking": "label_ranking",
    "label_ranking_real": "label_ranking",
    "airola": "papers.airola",
    "soft_projection": "papers.sopopo",
    "counting": "papers.lee_lin",
    "counting_levels": "papers.lee_lin",
    "convergence": "papers.lee_lin",
    "data_statistics": "papers.lee_lin_tables",
    "pointwise": "papers.lee_lin_tables",
    "forests": "papers.lee_lin_tables",
    "sparse_forests": "papers.lee_lin_tables",
    "partial_pairs": "papers.lee_lin_tables",
    "interior_point": "papers.sopopo",
    "phase_transition": "papers.sopopo",
    "multiclass": "papers.larank",
    "multiclass_online": "papers.larank",
    "larank_operations": "papers.larank",
    "top_ranking": "papers.a2dm2",
    "top_stops": "papers.a2dm2",
    "top_curves": "papers.a2dm2_curves",
    "top_roc": "papers.a2dm2_curves",
    "dirty_model": "papers.a2dm2_dirty",
    "boosting": "boosting",
    "pair_weights": "pair_weights",
    "gain_ndcg": "pair_weights",
    "explain": "explain",
    "serving": "serving",
    "tuning": "tuning",
    "tuning_path": "tuning",
    "tuning_overhead": "overhead",
    "changes": "changes",
    "cluster": "cluster",
    "cluster_kills": "cluster",
    "scaling": "scaling",
    "clicks": "clicks",
    "clicks_trees": "clicks",
}


def main() -> None:
    arguments = _arguments()
    _restart_with(ONE_THREAD)
    from benchmarks import results, speed
    from benchmarks.measure import machine
    from benchmarks.rivals import RIVALS

    if arguments.of is not None:
        print(json.dumps(speed.memory_of(arguments.of, arguments.tiny)))
        return
    chosen = list(_MODULES) if "all" in arguments.experiments else arguments.experiments
    packages = tuple(dict.fromkeys(["rankplug", *(rival.package for rival in RIVALS.values())]))
    for name in chosen:
        path = arguments.output / f"{name}.csv"
        module = import_module(f"benchmarks.{_MODULES[name]}")
        if not arguments.plot_only:
            rows = []
            for row in getattr(module, name)(arguments.tiny, arguments.rounds):
                print(_line(row), flush=True)
                rows.append(row)
            if not rows:
                print(f"{name}: nothing measured, as RANKPLUG_DATA names no folder")
                continue
            results.write(path, rows, machine(packages))
        plot = getattr(module, f"plot_{name}", None)
        if plot is not None:
            plot(path, path.with_suffix(".png"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("experiments", nargs="+", choices=[*_MODULES, "all"])
    parser.add_argument("--rounds", type=int, default=5, help="runs of each call, alternated")
    parser.add_argument("--tiny", action="store_true", help="sizes that only try the harness")
    parser.add_argument("--output", type=Path, default=_RESULTS, help="folder of the results")
    parser.add_argument("--plot-only", action="store_true", help="draw from earlier results")
    # How `memory` starts itself for one problem.
    parser.add_argument("--of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.tiny and arguments.of is None and arguments.output == _RESULTS:
        parser.error("--tiny needs --output: its numbers are no results")
    return arguments


def _restart_with(environment: dict[str, str]) -> None:
    """Start Python again if the variables are not set: libraries read them when loaded."""
    if any(os.environ.get(name) != value for name, value in environment.items()):
        command = [sys.executable, "-m", "benchmarks", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **environment})


def _line(row: dict[str, object]) -> str:
    shown = {key: f"{v:.4g}" if isinstance(v, float) else v for key, v in row.items()}
    return "  ".join(f"{key}={value}" for key, value in shown.items())


if __name__ == "__main__":
    main()
