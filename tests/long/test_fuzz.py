"""The fuzzing targets with the inputs that are kept: they run, and nothing is found."""

import importlib
import sys
from pathlib import Path

import pytest

CORPUS = Path(__file__).parent / "fuzz" / "corpus"


@pytest.mark.parametrize("target", sorted(folder.name for folder in CORPUS.iterdir()))
def test_kept_inputs(target, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(CORPUS.parents[3])
    module = importlib.import_module(f"tests.long.fuzz.{target}")
    # Also in targets whose checks this one shares.
    for name, loaded in list(sys.modules.items()):
        if name.startswith("tests.long.fuzz.") and hasattr(loaded, "one_in"):
            monkeypatch.setattr(loaded, "one_in", lambda n, data: True)
    files = sorted((CORPUS / target).iterdir())
    assert files
    for file in files:
        data = file.read_bytes()
        module.check(data, tmp_path)
        module.check(data[: len(data) // 2], tmp_path)
        module.check(data[:5] + b"\0" + data[6:], tmp_path)
