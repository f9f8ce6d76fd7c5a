"""Who may import whom: the contracts of pyproject.toml, and when libraries are loaded."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Imported in the functions that need them, so that nobody else waits for them.
SLOW = {
    "dask",
    "distributed",
    "lightgbm",
    "matplotlib",
    "mlflow",
    "optuna",
    "pandas",
    "polars",
    "pyarrow",
    "xgboost",
}

# Packages for users of such a library, who have loaded it anyway.
FOR_ITS_USERS = {"dask", "mlflow"}

# Modules that import them at their top, and are themselves imported in functions only.
LAZY = {
    "rankplug.io.predictions",
    "rankplug.models.answers",
    "rankplug.tuning.sampling",
    "rankplug.tuning.storage",
    "rankplug.tuning.study",
    "rankplug.tuning.trials",
}


def sources(folder):
    files = [file for kind in ("py", "pyx", "pxd") for file in (ROOT / folder).rglob(f"*.{kind}")]
    return sorted(file.relative_to(ROOT) for file in files)


def unit(file):
    """The department of a file: its first folder or its own name."""
    return file.parts[1] if len(file.parts) > 2 else file.stem


MODULES = [
    file
    for file in [*sources("rankplug"), *sources("plugins")]
    if file.suffix == ".py" and file != Path("rankplug/__init__.py")
]
COMPILED = [
    file for file in [*sources("rankplug"), *sources("plugins")] if file.suffix in {".pyx", ".pxd"}
]


def imports(file, nodes=ast.walk):
    """Dotted names of what a file imports; ``from a import b`` counts as ``a.b``."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.suffix != ".py":
        lines = re.findall(r"^(?:from|cimport|import)\s+([\w.]+)", text, re.MULTILINE)
        return set(lines)
    found = set()
    for node in nodes(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import, write the whole name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def at_import_time(tree):
    """The statements that run when the module is imported."""
    for node in tree.body if hasattr(tree, "body") else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from at_import_time(node)
    for part in ("orelse", "handlers", "finalbody"):
        for node in getattr(tree, part, ()):
            yield node
            yield from at_import_time(node)


def of(names, package):
    """What is imported of a package: ``{"data"}`` for ``rankplug.data.ranking.RankingData``."""
    parts = [name.split(".") for name in names]
    return {part[1] if len(part) > 1 else "" for part in parts if part[0] == package}


def test_departments_import_what_they_may():
    # In a process of its own: the linter sets up logging, and so disables all loggers there are.
    code = "import sys, importlinter.cli as c; sys.exit(c.lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_of_the_architecture_shows_the_same_floors():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| .+ \|$", page, re.MULTILINE)
    shown = {}
    for floor, department in rows:
        shown.setdefault(int(floor), set()).add(department)
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = config["tool"]["importlinter"]["contracts"][0]["layers"]
    floors = [set(re.findall(r"\w+", line)) for line in reversed(contract)]
    assert shown == dict(enumerate(floors, start=1))
    there = {path.stem for path in (ROOT / "rankplug").iterdir() if path.suffix in {"", ".py"}}
    assert set().union(*floors) == there - {"__init__", "__pycache__"}


@pytest.mark.parametrize("file", COMPILED, ids=str)
def test_compiled_code_imports_compiled_code(file):
    names = imports(file)
    assert of(names, "rankplug") <= {"_fast"}
    assert of(names, "rankplug_plugins") <= {file.parts[1]}


@pytest.mark.parametrize(
    "file", [file for file in MODULES if unit(file) not in FOR_ITS_USERS], ids=str
)
def test_slow_libraries_wait_for_their_use(file):
    names = imports(file, at_import_time)
    if ".".join(file.with_suffix("").parts) not in LAZY:
        assert {name.split(".")[0] for name in names} & SLOW == set()
        assert {".".join(name.split(".")[:3]) for name in names} & LAZY == set()


def test_the_public_names_load_nothing_before_their_use():
    names = imports(Path("rankplug/__init__.py"), at_import_time)
    others = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
    assert others == {"rankplug.system.lazy.loader"}
    assert {name.split(".")[0] for name in imports(Path("rankplug/system/lazy.py"))} <= set(
        sys.stdlib_module_names
    )


def modules_after(statements):
    script = f"import sys\n{statements}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def test_importing_rankplug_is_quick():
    assert modules_after("import rankplug") & (SLOW | {"sklearn", "scipy", "numpy"}) == set()


def test_training_a_ranker_loads_no_other_library():
    fit = "rankplug.Ranker('tree-tron').fit([[0.0], [1.0]], [0, 1])"
    loaded = modules_after(f"import rankplug\nrankplug.list_solvers()\n{fit}")
    assert "rankplug_plugins" in loaded
    by_scikit_learn = {"pandas", "pyarrow"}
    assert loaded & SLOW - by_scikit_learn == set()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b", {"a.b"}),
        ("from a import b, c", {"a.b", "a.c"}),
        ("def f():\n    import a", set()),
        ("class C:\n    import a", {"a"}),
        ("try:\n    import a\nexcept ImportError:\n    import b", {"a", "b"}),
        ("if True:\n    pass\nelse:\n    import a", {"a"}),
        ("if TYPE_CHECKING:\n    import a", set()),
    ],
)
def test_how_imports_are_read(tmp_path, source, expected):
    file = tmp_path / "module.py"
    file.write_text(source)
    assert imports(file, at_import_time) == expected
