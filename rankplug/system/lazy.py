"""Lazy imports: public names of a package that are loaded on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def loader(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: each name comes from the module that `home` tells."""

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
