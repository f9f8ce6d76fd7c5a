"""Processes that tests start: a program in Python to its end, and the recipe of a small set."""

import subprocess
import sys

# What tests of several processes have in common; each adds the solvers that it needs.
SMALL = """
name: small
data: {dataset: wine}
metrics: [kendall_tau]
sanity: false
scale: standard
"""
TUNED = (
    SMALL
    + """\
tune: {n_trials: 2, folds: 2}
solvers:
  - solver: tree-tron
    params: {tol: 1e-6}
"""
)


def run_python(code, *arguments, timeout, cwd=None, env=None):
    """Run a program given as text; the result holds what it wrote, as text."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
        env=env,
    )
