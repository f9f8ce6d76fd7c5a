import importlib
import importlib.metadata
import pkgutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import rankplug
import rankplug_plugins
from rankplug._fast import passes

ROOT = Path(__file__).parents[1]


def public_modules(package):
    yield package.__name__
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            yield module.name


@pytest.mark.parametrize("name", ["plugins", "plugins.tree_tron"])
def test_plugins_have_one_name_only(name):
    result = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode != 0
    message = "ImportError: these solvers are installed as 'rankplug_plugins', not as 'plugins'"
    assert message in result.stderr


def test_the_version_is_that_of_the_distribution():
    assert rankplug.__version__ == importlib.metadata.version("rankplug")


@pytest.mark.parametrize("name", rankplug.__all__)
def test_public_names_exist(name):
    assert getattr(rankplug, name) is not None
    assert name in dir(rankplug)


def test_public_names_come_from_star():
    names = {}
    exec("from rankplug import *", names)
    assert set(rankplug.__all__) <= set(names)


def test_other_names_do_not_exist():
    with pytest.raises(AttributeError, match="module 'rankplug' has no attribute 'Rankr'"):
        _ = rankplug.Rankr
    with pytest.raises(ImportError, match="cannot import name 'Rankr'"):
        exec("from rankplug import Rankr")


@pytest.mark.parametrize(
    "name", [*public_modules(rankplug), *public_modules(rankplug_plugins)], ids=str
)
def test_every_public_module_says_what_it_is(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    missing = [public for public in getattr(module, "__all__", []) if not hasattr(module, public)]
    assert not missing, f"{name}.__all__ names what it has not: {missing}"


def test_every_folder_of_code_is_packaged():
    found = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import setuptools; from distutils.core import run_setup; "
            "print(*run_setup('setup.py', stop_after='init').packages)",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    tops = {"rankplug": "rankplug", "plugins": "rankplug_plugins", "recipes": "rankplug_recipes"}
    expected = {
        ".".join([package, *file.parent.relative_to(ROOT / folder).parts])
        for folder, package in tops.items()
        for file in (ROOT / folder).rglob("*.py")
    }
    assert set(found) == expected


def test_the_package_says_that_it_is_typed():
    assert (Path(rankplug.__file__).parent / "py.typed").is_file()


@pytest.mark.skipif(
    sys.implementation.name != "cpython" or bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="has no stable interface",
)
def test_compiled_modules_serve_later_versions_of_python():
    assert passes.__file__.endswith((".abi3.so", ".pyd"))


def test_entry_points_lead_somewhere():
    distribution = importlib.metadata.distribution("rankplug")
    own = [point for point in distribution.entry_points if point.group.startswith("rankplug.")]
    assert {"tree-tron", "xgboost-pairwise", "xgboost"} <= {point.name for point in own}
    for point in own:
        assert isinstance(point.load(), type)
