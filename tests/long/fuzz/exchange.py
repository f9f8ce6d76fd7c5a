"""Target: model files of LIBLINEAR, SVMrank, XGBoost and LightGBM, the first line names which."""

from __future__ import annotations

from pathlib import Path

from rankplug.exceptions import ModelFormatError
from rankplug.exchange import import_model
from tests.long.fuzz.model import check_model

MAX_LENGTH = 2000
FORMATS = ("liblinear", "svmrank", "xgboost", "lightgbm")
TOKENS = [b"solver_type L2R_L2LOSS_SVR\n", b"nr_class 2\n", b"nr_feature ", b"bias -1\n", b"w\n"]
TOKENS += [b"label 1 -1\n", b" # kernel type", b" # highest feature index", b" 1:", b" #\n"]
TOKENS += [b"1e999", b"nan", b"-1", b"2147483648", b"99999999999", b"\0", b"\r\n", b"\xd9\xa3"]
TOKENS += [b"left_children", b"split_conditions", b"Tree=0\n", b"threshold=", b"left_child="]


def check(data: bytes, folder: Path) -> None:
    """Refused, or a model that predicts finite scores (or refuses) and survives saving."""
    name, _, content = data.partition(b"\n")
    chosen = name.decode("latin-1")
    if chosen not in FORMATS:
        return
    file = folder / "model"
    file.write_bytes(content)
    try:
        model, notes = import_model(file, chosen)
    except ModelFormatError:
        return
    assert model.n_labels is None
    assert all(isinstance(note, str) for note in notes)
    check_model(model, data, folder)
