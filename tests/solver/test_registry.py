import importlib
import subprocess
import sys
from functools import partial
from textwrap import dedent

import pytest

import rankplug
from rankplug.exceptions import (
    ParameterError,
    RankplugError,
    SolverUnavailableError,
    UnknownNameError,
)
from rankplug.solver import name_solvers, solver_class

SOLVER = """
    from rankplug.solver import SolverTags
    from rankplug.testing import PairDirection

    class Elsewhere(PairDirection):
        name = "elsewhere"
        tags = SolverTags(("query-document",), "a problem", "a paper", duality_gap=True)
"""


def info(name):
    (found,) = [solver for solver in rankplug.list_solvers() if solver.name == name]
    return found


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a distribution that names one solver, by writing what pip would write."""
    installed = []

    def write(source, *, name="elsewhere", target="Elsewhere", package="elsewhere-solver"):
        module = package.replace("-", "_")
        folder = tmp_path / package
        metadata = folder / f"{module}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        )
        (metadata / "entry_points.txt").write_text(
            f"[rankplug.solvers]\n{name} = {module}:{target}\n"
        )
        (folder / f"{module}.py").write_text(dedent(source))
        monkeypatch.syspath_prepend(folder)
        importlib.invalidate_caches()
        installed.append(module)

    yield write
    for module in installed:
        sys.modules.pop(module, None)


# What rankplug brings along


def test_own_solvers():
    solver = info("tree-tron")
    assert solver.available
    assert solver.reason is None
    assert solver.package == "rankplug"
    assert "query-document" in solver.tasks
    assert solver.problem
    assert solver.reference


def test_solvers_are_sorted():
    names = [solver.name for solver in rankplug.list_solvers()]
    assert names == sorted(names)


def test_solvers_are_made_by_name():
    solver = rankplug.make_solver("tree-tron", C=0.5)
    assert solver.name == "tree-tron"
    assert solver.C == 0.5
    assert isinstance(solver, solver_class("tree-tron"))


@pytest.mark.parametrize(
    ("name", "nearest"), [("tree-torn", "tree-tron"), ("xgboost-pair", "xgboost-pairwise")]
)
def test_unknown_names_suggest_the_nearest(name, nearest):
    with pytest.raises(
        UnknownNameError, match=f"unknown solver '{name}'; did you mean '{nearest}'"
    ):
        rankplug.make_solver(name)


def test_a_far_off_name_lists_what_there_is():
    with pytest.raises(UnknownNameError, match=r"unknown solver 'q' \(known: .*tree-tron"):
        rankplug.make_solver("q")


def test_unknown_parameters_suggest_the_nearest():
    with pytest.raises(ParameterError) as caught:
        rankplug.make_solver("tree-tron", max_iters=3, zzz=1)
    assert "tree-tron has no parameter 'max_iters'; did you mean 'max_iter'?" in str(caught.value)
    assert "no parameter 'zzz'" in str(caught.value)


def test_no_way_of_setting_a_parameter_takes_one_that_is_none():
    solver = rankplug.make_solver("tree-tron")
    for make in (
        partial(rankplug.make_solver, "tree-tron"), solver.set_params,
        rankplug.Ranker(solver).set_params,
        partial(rankplug.Ranker, "tree-tron"), partial(rankplug.Ranker, solver),
    ):  # fmt: skip
        for name in ("c", "c__x", "C__x"):
            with pytest.raises(ParameterError, match=name.removesuffix("__x")):
                make(**{name: 1.0})
    with pytest.raises(ParameterError, match="Invalid parameter 'knots'"):
        rankplug.make_map("splines").set_params(knots=3)


def test_solvers_to_be_compared_are_names_solvers_or_estimators():
    ranker, solver = rankplug.Ranker("tree-tron", C=0.1), rankplug.make_solver("toppush")
    named = name_solvers([ranker, solver, "constant"])
    assert named == {"tree-tron": ranker.solver, "toppush": solver, "constant": "constant"}
    assert name_solvers(ranker) == {"tree-tron": ranker.solver}
    assert name_solvers({"mine": ranker})["mine"].C == 0.1
    for wrong in (3, [3], {"a": 3}):
        with pytest.raises(ParameterError, match="solver=3 must be a registered name or a Solver"):
            name_solvers(wrong)


# What third parties bring


def test_a_plugin_is_found_made_and_trained(install):
    install(SOLVER)
    solver = info("elsewhere")
    assert solver.available
    assert solver.package == "elsewhere-solver"
    assert (solver.tasks, solver.problem) == (("query-document",), "a problem")
    ranker = rankplug.Ranker(rankplug.make_solver("elsewhere", C=2.0))
    assert ranker.fit([[0.0], [1.0]], [0, 1]).rank([[0.0], [1.0]]).tolist() == [2, 1]
    assert rankplug.Ranker("elsewhere").fit([[0.0], [1.0]], [0, 1]).result_.status == "converged"


def test_a_plugin_installed_by_pip(tmp_path):
    """A whole distribution, built, installed and used in a process of its own."""
    pytest.importorskip("pip", reason="needs pip in this environment")
    project, target = tmp_path / "project", tmp_path / "site"
    project.mkdir()
    (project / "elsewhere.py").write_text(dedent(SOLVER))
    (project / "pyproject.toml").write_text(
        dedent("""
            [build-system]
            requires = ["setuptools"]
            build-backend = "setuptools.build_meta"

            [project]
            name = "elsewhere-solver"
            version = "1.0"

            [project.entry-points."rankplug.solvers"]
            elsewhere = "elsewhere:Elsewhere"

            [tool.setuptools]
            py-modules = ["elsewhere"]
        """)
    )
    arguments = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    subprocess.run([*pip, "--target", str(target), str(project)], check=True)
    script = f"""
        import sys
        sys.path.insert(0, {str(target)!r})
        import rankplug
        print([(s.available, s.package) for s in rankplug.list_solvers() if s.name == "elsewhere"])
        print(rankplug.Ranker("elsewhere").fit([[0.0], [1.0]], [0, 1]).rank([[0.0], [1.0]]))
    """
    result = subprocess.run(
        [sys.executable, "-c", dedent(script)], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines() == ["[(True, 'elsewhere-solver')]", "[2 1]"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import there_is_no_such_module", "ModuleNotFoundError: No module named 'there_is_no"),
        ("1 / 0", "ZeroDivisionError"),
        ("def broken(:", "SyntaxError"),
        ("x = 1", "has no attribute 'Elsewhere'"),
        ("Elsewhere = 3", "is not a subclass of rankplug.Solver"),
        ("class Elsewhere: pass", "is not a subclass of rankplug.Solver"),
        (
            "import rankplug\nclass Elsewhere(rankplug.Solver):\n    name = 'elsewhere'",
            r"has no attribute tags = SolverTags\(...\)",
        ),
        (SOLVER.replace('"elsewhere"', '"somewhere"'), "calls itself 'somewhere'"),
        (
            "import rankplug\nclass Elsewhere(rankplug.Solver):\n    name = 'elsewhere'\n"
            "    tags = rankplug.SolverTags(('query-document',), 'p', 'r')",
            "lacks the methods _solve",
        ),
    ],
)
def test_a_broken_plugin_is_listed_with_its_reason_and_breaks_nothing(install, source, reason):
    install(source)
    with pytest.warns(UserWarning, match=reason):
        solvers = {solver.name: solver for solver in rankplug.list_solvers()}
    assert not solvers["elsewhere"].available
    assert solvers["elsewhere"].reason.startswith("solver 'elsewhere' (elsewhere_solver:Elsewhere)")
    assert solvers["elsewhere"].package == "elsewhere-solver"
    assert solvers["tree-tron"].available
    assert rankplug.make_solver("tree-tron").name == "tree-tron"
    with pytest.raises(SolverUnavailableError, match=reason) as caught:
        rankplug.make_solver("elsewhere")
    assert isinstance(caught.value, RankplugError)


@pytest.mark.parametrize("module", ["there_is_no_such_module", "json.nothing", "nowhere.at_all"])
def test_a_missing_requirement_is_told_with_its_remedy(install, module):
    install(SOLVER.replace("duality_gap=True", f"duality_gap=True, requires=('{module}', 'json')"))
    solver = info("elsewhere")
    assert not solver.available
    assert solver.reason == f"needs {module}: pip install {module}"
    assert solver.problem == "a problem"
    with pytest.raises(SolverUnavailableError, match=f"needs {module}: pip install {module}"):
        rankplug.make_solver("elsewhere")


def test_two_packages_that_name_the_same_solver(install):
    install(SOLVER, package="later-solver")
    install(SOLVER.replace("a problem", "the first on the path"), package="first-solver")
    message = "packages first-solver and later-solver both name a solver 'elsewhere'"
    with pytest.warns(UserWarning, match=message):
        solver = info("elsewhere")
    assert solver.package == "first-solver"
    assert solver.problem == "the first on the path"


def test_a_plugin_is_found_as_soon_as_it_is_installed(install):
    with pytest.raises(UnknownNameError, match="unknown solver 'elsewhere'"):
        rankplug.make_solver("elsewhere")
    install(SOLVER)
    assert rankplug.make_solver("elsewhere").name == "elsewhere"


def test_packages_are_read_once(monkeypatch):
    rankplug.make_solver("tree-tron")

    def refuse(**_):
        raise AssertionError("entry points are read again")

    monkeypatch.setattr("rankplug.system.plugins.entry_points", refuse)
    assert rankplug.make_solver("tree-tron").name == "tree-tron"
