"""Wheels that go along with models: what is packed, what is not, and that pip installs it."""

import importlib.metadata
import json
import logging
import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
import pytest

import rankplug
import rankplug.mlflow
from rankplug import Ranker
from rankplug.mlflow import wheels
from tests.processes import run_python

X = np.arange(12.0).reshape(6, 2)
Y = [0, 1, 2, 0, 2, 1]
QID = [1, 1, 1, 2, 2, 2]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a saved model."""
    folder = tmp_path_factory.mktemp("model") / "saved"
    rankplug.mlflow.save_model(Ranker("tree-tron").fit(X, Y, qid=QID), folder)
    return folder


def requirements(folder):
    return (folder / "requirements.txt").read_text().splitlines()


def installed(folder, name="plug", version="1.0", direct=None, **files):
    """A distribution in a folder of packages, as pip leaves it there."""
    packages = folder / "packages"
    (packages / name).mkdir(parents=True)
    info = packages / f"{name}-{version}.dist-info"
    info.mkdir()
    written = {"__init__.py": "A = 1\n", **files}
    for file, text in written.items():
        (packages / name / file).write_text(text)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nt\n"
    )
    (info / "top_level.txt").write_text(f"{name}\n")
    record = "".join(f"{name}/{file},,\n" for file in written)
    (info / "RECORD").write_text(f"{record}{info.name}/METADATA,,\n")
    if direct is not None:
        (info / "direct_url.json").write_text(json.dumps(direct))
    return packages


def names_in(wheel, tmp_path):
    (tmp_path / wheel.name).write_bytes(wheel.content)
    with zipfile.ZipFile(tmp_path / wheel.name) as archive:
        assert archive.testzip() is None
        return sorted(archive.namelist())


def test_a_model_holds_a_wheel_of_what_is_imported(saved):
    option, *_ = [line for line in requirements(saved) if line.startswith("--")]
    (wheel,) = (saved / option.removeprefix("--find-links=")).iterdir()
    assert wheel.name.startswith(f"rankplug-{rankplug.__version__}+w")
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
        assert archive.read("rankplug/__init__.py") == Path(rankplug.__file__).read_bytes()
    for part in ("rankplug_plugins/boosting/", "rankplug_recipes/", "rankplug/_fast/passes."):
        assert any(name.startswith(part) for name in inside), part
    assert not [name for name in inside if name.endswith((".pyc", ".pyx", ".c"))]
    assert f"rankplug=={rankplug.__version__}" in requirements(saved)
    conda = (saved / "conda.yaml").read_text()
    assert option in conda


def test_pip_installs_it_wherever_it_is_called_and_the_model_loads(saved, tmp_path):
    lines = [line for line in requirements(saved) if line.startswith(("--", "rankplug"))]
    file = saved / "only.txt"
    file.write_text("\n".join(lines))
    pip = ["pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    command = [sys.executable, "-m", *pip, str(tmp_path / "made"), "-r", str(file)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    code = (
        "import mlflow.pyfunc, numpy, rankplug, sys; print(rankplug.__file__); "
        f"print(*mlflow.pyfunc.load_model({str(saved)!r}).predict(numpy.ones((2, 2))))"
    )
    environment = {"PYTHONPATH": str(tmp_path / "made"), "PATH": "", "HOME": str(tmp_path)}
    done = run_python(code, timeout=200, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    where, scores = done.stdout.splitlines()
    assert Path(where).is_relative_to(tmp_path / "made")
    assert len(set(scores.split())) == 1
    assert "mismatch" not in done.stderr


def test_a_model_says_itself_what_it_needs(tmp_path):
    model = Ranker("tree-tron").fit(X, Y, qid=QID)
    rankplug.mlflow.save_model(model, tmp_path / "own", pip_requirements=["mlflow", "rankplug"])
    assert requirements(tmp_path / "own") == ["mlflow", "rankplug"]
    assert not (tmp_path / "own" / "wheels").exists()
    rankplug.mlflow.save_model(model, tmp_path / "more", extra_pip_requirements=["pyyaml"])
    assert requirements(tmp_path / "more")[-1] == "pyyaml"
    assert (tmp_path / "more" / "wheels").is_dir()


@pytest.mark.parametrize(
    "direct",
    [
        {"url": "file:///src/plug", "dir_info": {}},
        {"url": "file:///plug-1.0-py3-none-any.whl", "archive_info": {}},
        {"url": "https://host/plug", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}},
    ],
)
def test_packages_from_elsewhere_are_packed_as_they_were_installed(tmp_path, monkeypatch, direct):
    packages = installed(tmp_path, direct=direct, **{"data.txt": "kept"})
    (packages / "plug" / "left_by_someone.txt").write_text("not of the package")
    monkeypatch.syspath_prepend(packages)
    (wheel,) = wheels.wheels_of(["plug"])
    info = f"plug-1.0+w{wheel.digest}.dist-info"
    assert names_in(wheel, tmp_path) == sorted(
        ["plug/__init__.py", "plug/data.txt"]
        + [f"{info}/{one}" for one in ("METADATA", "RECORD", "WHEEL", "top_level.txt")]
    )
    assert wheel.name == f"plug-1.0+w{wheel.digest}-py3-none-any.whl"
    assert wheels.wheels_of(["plug"])[0] is wheel  # made once
    (packages / "plug" / "__init__.py").write_text("A = 23\n")
    assert wheels.wheels_of(["plug"])[0].digest != wheel.digest


def test_packages_from_an_index_are_not_packed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(installed(tmp_path))
    packages = installed(tmp_path, name="named")
    (packages / "named" / "__init__.py").unlink()  # a namespace package
    assert wheels.wheels_of(["plug", "named", "numpy", "not-installed"]) == []


PLUG = """\
from rankplug_plugins.maps import IdentityMap

class Same(IdentityMap.fitted):
    kind = "same"

class SameMap(IdentityMap):
    name = "same"
    fitted = Same

    def _fit(self, fitting):
        same = super()._fit(fitting)
        same.__class__ = Same
        return same
"""


def test_the_package_of_a_map_goes_along_with_its_models(tmp_path, monkeypatch):
    direct = {"url": "file:///src/mapping", "dir_info": {}}
    packages = installed(tmp_path, name="mapping", direct=direct, **{"__init__.py": PLUG})
    points = packages / "mapping-1.0.dist-info" / "entry_points.txt"
    points.write_text("[rankplug.maps]\nsame = mapping:SameMap\n")
    monkeypatch.syspath_prepend(packages)
    model = Ranker("mapped", map="same + splines").fit(X, Y, qid=QID)
    rankplug.mlflow.save_model(model, tmp_path / "saved")
    lines = requirements(tmp_path / "saved")
    assert "mapping==1.0" in lines
    (wheel,) = (tmp_path / "saved").glob("wheels/*/mapping-1.0+w*.whl")
    assert f"--find-links={wheel.parent.relative_to(tmp_path / 'saved')}" in lines


def test_what_was_packed_once_is_packed_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(installed(tmp_path, version="1.0+w0123456789ab"))
    (wheel,) = wheels.wheels_of(["plug"])
    assert wheel.name == f"plug-1.0+w{wheel.digest}-py3-none-any.whl"


def test_an_editable_package_is_packed_from_its_folder(tmp_path, monkeypatch):
    direct = {"url": "file:///src/plug", "dir_info": {"editable": True}}
    packages = installed(tmp_path, direct=direct)
    source = tmp_path / "source"
    source.mkdir()
    (packages / "plug").rename(source / "plug")
    (source / "plug" / "__pycache__").mkdir()
    (source / "plug" / "__pycache__" / "a.pyc").touch()
    (source / "plug" / ".secret").touch()
    (source / "plug" / "fast.cpython-27-x86_64-linux-gnu.so").touch()
    monkeypatch.syspath_prepend(packages)
    monkeypatch.syspath_prepend(source)
    (wheel,) = wheels.wheels_of(["plug"])
    modules = [name for name in names_in(wheel, tmp_path) if name.startswith("plug/")]
    assert modules == ["plug/__init__.py"]


def test_what_cannot_be_packed_is_said_once(tmp_path, monkeypatch, caplog):
    packages = installed(tmp_path, name="spaced", direct={"url": "file:///x", "dir_info": {}})
    (packages / "spaced" / "__init__.py").unlink()  # a namespace package
    monkeypatch.syspath_prepend(packages)
    wheels._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert wheels.wheels_of(["spaced"]) == []
        assert wheels.wheels_of(["spaced"]) == []
    (record,) = caplog.records
    assert "spaced 1.0 is not known to be on a package index, and spaced is a namespace" in (
        record.getMessage()
    )
    assert "pip_requirements" in record.getMessage()


DIRECT = {"url": "file:///x", "dir_info": {}}


def said_of(packages, monkeypatch, caplog, name="plug"):
    """The wheels of a package, and what is logged."""
    monkeypatch.syspath_prepend(packages)
    wheels._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        made = wheels.wheels_of([name])
    return made, " ".join(record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("platform", "warned"), [("manylinux_2_28_x86_64", False), ("macosx_11_0_arm64", True)]
)
def test_compiled_packages_keep_the_tags_of_their_wheel(
    tmp_path, monkeypatch, caplog, platform, warned
):
    packages = installed(tmp_path, direct=DIRECT, **{f"fast{EXTENSION_SUFFIXES[0]}": ""})
    info = packages / "plug-1.0.dist-info"
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: cp311-cp311-{platform}\n")
    metadata = (info / "METADATA").read_text()
    (info / "METADATA").write_text(metadata.replace("\n\n", "\nLicense-File: LICENCE\n\n"))
    (info / "licenses").mkdir()
    (info / "licenses" / "LICENCE").write_text("Free.")
    (wheel,), said = said_of(packages, monkeypatch, caplog)
    assert wheel.name == f"plug-1.0+w{wheel.digest}-cp311-cp311-{platform}.whl"
    assert f"plug-1.0+w{wheel.digest}.dist-info/licenses/LICENCE" in names_in(wheel, tmp_path)
    assert (
        "a wheel of plug for" in said and "containers for Linux cannot be made" in said
    ) == warned


def test_a_package_may_be_a_single_module(tmp_path, monkeypatch, caplog):
    packages = installed(tmp_path, name="solo", direct=DIRECT)
    (packages / "solo" / "__init__.py").rename(packages / "solo.py")
    (packages / "solo").rmdir()
    (wheel,), said = said_of(packages, monkeypatch, caplog, "solo")
    assert "solo.py" in names_in(wheel, tmp_path)
    assert not said


@pytest.mark.parametrize("top_level", ["gone", "gone.deeper"])
def test_packages_whose_files_are_gone_or_too_many_are_named(
    tmp_path, monkeypatch, caplog, top_level
):
    packages = installed(tmp_path, direct=DIRECT)
    monkeypatch.setattr(wheels, "_MOST_BYTES", 3)
    made, said = said_of(packages, monkeypatch, caplog)
    assert made == []
    assert "and its folder holds more than 3 bytes: environments and containers cannot" in said
    (packages / "plug-1.0.dist-info" / "top_level.txt").write_text(f"{top_level}\n")
    made, said = said_of(packages, monkeypatch, caplog)
    assert made == []
    assert "plug 1.0 is not known to be on a package index, and none of its files is found" in said


def test_metadata_in_a_folder_of_sources_say_nothing_of_the_installation(tmp_path, monkeypatch):
    folder = tmp_path / "rankplug.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: rankplug\nVersion: 0.2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.metadata.distribution("rankplug").read_text("RECORD") is None
    assert wheels._installed("rankplug").read_text("RECORD") is not None
