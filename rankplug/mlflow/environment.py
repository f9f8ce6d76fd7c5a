"""Facts about the machine and the software that a run depends on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import rankplug

__all__ = ["environment_facts"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "xgboost", "mlflow")
_VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")


def environment_facts() -> dict[str, str]:
    """Versions, platform, processors and thread settings, by name."""
    facts = {
        "python": platform.python_version(),
        "rankplug": rankplug.__version__,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu_count": str(os.cpu_count()),
        "cpus_usable": str(_cpus_usable()),
    }
    facts |= {name: _installed(name) for name in _PACKAGES}
    return facts | {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def _cpus_usable() -> int | None:
    """Processors this process may run on, where the system can say so."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count()


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
