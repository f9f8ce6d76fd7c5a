"""Every solver's model is loaded where only what it says it needs is installed."""

import os
import shutil
import subprocess
import sys
import warnings
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankplug
import rankplug.mlflow
from rankplug import LabelRanker, Ranker
from rankplug.data import fit_scaling
from rankplug.models import ScaledModel
from rankplug.testing import make_problem

ROOT = Path(__file__).parents[2]

# Loads every model of a folder and compares its scores with those it had when it was trained.
# With names after the folder, these modules cannot be imported.
LOAD = """\
import sys
from pathlib import Path

folder, *refused = sys.argv[1:]


class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *arguments):
        hidden = name.partition(".")[0] in refused
        return None if hidden else self.finder.find_spec(name, *arguments)

    def __getattr__(self, name):
        return getattr(self.finder, name)


sys.meta_path[:] = map(Without, sys.meta_path)
before = set(sys.modules)

import mlflow.pyfunc
import numpy as np
import rankplug.mlflow

for model in sorted(Path(folder).iterdir()):
    data = np.load(model / "expected.npz")
    for scores in (
        rankplug.mlflow.load_model(str(model)).predict(data["X"]),
        mlflow.pyfunc.load_model(str(model)).predict(data["X"]),
    ):
        np.testing.assert_array_equal(scores, data["scores"], err_msg=model.name)
    print(model.name)
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before} & set(refused)))
"""


def small(name):
    solver = rankplug.make_solver(name)
    limits = {"n_threads": 1, "n_estimators": 5}
    return solver.set_params(**{k: v for k, v in limits.items() if k in solver.get_params()})


def trained():
    """Names and fitted estimators: every solver, on each of its tasks, and with a kernel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solvers = [info for info in rankplug.list_solvers() if info.available]
    for info in solvers:
        for task in info.tasks:
            yield f"{info.name}.{task}", _fitted(small(info.name), task)
        if small(info.name).tags.kernel:
            kernel = small(info.name).set_params(kernel="rbf")
            yield f"{info.name}.kernel", _fitted(kernel, "label-ranking")


def _fitted(solver, task):
    problem = make_problem(task)
    if task == "label-ranking":
        return LabelRanker(solver, random_state=0).fit(problem.X, problem.y)
    y = (problem.y > 0).astype(float)
    return Ranker(solver, random_state=0).fit(problem.X, y, qid=problem.qid)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Saved models with their scores."""
    folder = tmp_path_factory.mktemp("models")
    X = np.random.default_rng(0).normal(size=(9, 5))
    models = dict(trained())
    linear = models["tree-tron.query-document"]
    problem = make_problem("query-document")
    pipeline = make_pipeline(StandardScaler(), Ranker())
    models["pipeline"] = pipeline.fit(problem.X, problem.y, ranker__qid=problem.qid)
    models["scaled"] = ScaledModel(linear.model_, fit_scaling(problem.X, "minmax"))
    for name, model in models.items():
        rankplug.mlflow.save_model(model, folder / name)
        np.savez(folder / name / "expected.npz", X=X, scores=model.predict(X))
    return folder


def requirements(model):
    """The packages that are required; the options beside them say where pip finds some."""
    lines = (model / "requirements.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("--")]


def with_dependencies(lines):
    """Names of the distributions that these requirements bring along."""
    found, left = set(), [Requirement(line) for line in lines]
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in found:
            continue
        found.add(key)
        extras = {"", *requirement.extras}
        needed = [Requirement(text) for text in distribution(name).requires or []]
        left += [
            one
            for one in needed
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return frozenset(name for name, _ in found)


def modules_without(distributions):
    """Top-level modules that are installed, but by none of these distributions."""
    return sorted(
        module
        for module, owners in packages_distributions().items()
        if not distributions & {canonicalize_name(owner) for owner in owners}
    )


def load_in(python, folder, refused=()):
    done = subprocess.run(
        [python, "-c", LOAD, str(folder), *refused],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            # The same kernels of OpenBLAS as here, or the last bits of scores differ.
            **{name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")},
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *loaded, not_refused = done.stdout.split("\n")[:-1]
    assert loaded == sorted(model.name for model in folder.iterdir())
    assert not_refused == ""


@pytest.mark.long
def test_every_model_loads_with_its_requirements_only(saved, tmp_path):
    groups = {}
    for model in saved.iterdir():
        groups.setdefault(with_dependencies(requirements(model)), []).append(model)
    assert len(list(saved.iterdir())) > 10
    for number, (distributions, models) in enumerate(groups.items()):
        refused = modules_without(distributions)
        assert {"pytest", "hypothesis", "_pytest"} <= set(refused)
        assert {"numpy", "mlflow", "xgboost"}.isdisjoint(refused)
        for model in models:
            shutil.copytree(model, tmp_path / str(number) / model.name)
        load_in(sys.executable, tmp_path / str(number), refused)


@pytest.mark.skipif(
    not os.environ.get("RANKPLUG_CLEAN_VENV"),
    reason="set RANKPLUG_CLEAN_VENV=1 to make an environment from the package index: minutes",
)
def test_every_model_loads_in_a_new_environment(saved, tmp_path):
    """The same without approximation: a wheel and the models' own requirements files."""
    source = shutil.copytree(
        ROOT, tmp_path / "source", ignore=shutil.ignore_patterns(".git", "build", "*.so")
    )
    build = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", str(source)]
    subprocess.run([sys.executable, "-m", *build, "-w", str(tmp_path)], check=True)
    (wheel,) = tmp_path.glob("rankplug-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    lines = {line for model in saved.iterdir() for line in requirements(model)}
    packages = sorted(line for line in lines if not line.startswith("rankplug=="))
    subprocess.run([python, "-m", "pip", "install", "-q", str(wheel), *packages], check=True)
    load_in(python, saved)
