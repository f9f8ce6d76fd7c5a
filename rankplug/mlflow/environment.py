"""Facts about the machine and the software that a run depends on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from threadpoolctl import threadpool_info

import rankplug
from rankplug.system.cores import available_cores

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
        "cpus_usable": str(available_cores()),
        "cpu": _cpu(),
        "blas_threads": str(_blas_threads()),
    }
    facts |= {name: _installed(name) for name in _PACKAGES}
    return facts | {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def _cpu() -> str:
    """The model of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")


def _blas_threads() -> int:
    """Threads of the linear algebra that NumPy and SciPy call, 1 if it has none of its own."""
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(pools, default=1)


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
