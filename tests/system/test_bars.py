"""Bars are shown by terminals and notebooks, and by nothing else."""

import io
import sys
import types

import pytest

import rankplug
from rankplug.datasets import load
from rankplug.system.bars import in_notebook, open_bar


@pytest.fixture
def kernel(monkeypatch):
    """What IPython is in the kernel of a notebook; without widgets, so that bars are text."""
    module = types.ModuleType("IPython")
    module.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", module)


def test_no_bar_without_terminal(capfd):
    assert not in_notebook()
    with open_bar(total=3) as bar:
        bar.update(3)
    assert capfd.readouterr().err == ""


def test_a_terminal_has_a_bar():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    with open_bar(total=3, file=(terminal := Terminal())) as bar:
        bar.update(3)
    assert "3/3" in terminal.getvalue()


def test_a_notebook_has_a_bar(kernel, capfd):
    assert in_notebook()
    data = load("digits-retrieval", n_queries=6).train
    rankplug.tune("tree-tron", data, metric="map", n_trials=1, folds=2)
    assert "tree-tron: 100%" in capfd.readouterr().err


def test_without_progress_there_is_none(kernel, capfd):
    data = load("digits-retrieval", n_queries=6).train
    rankplug.tune("tree-tron", data, metric="map", n_trials=1, folds=2, progress=False)
    assert capfd.readouterr().err == ""
