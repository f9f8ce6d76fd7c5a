"""Progress bars (tqdm) of terminals and notebooks; silent where neither would show them."""

from __future__ import annotations

import sys
from typing import Any


def open_bar(*, shown: bool = True, **options: Any) -> Any:
    """A bar of `tqdm.auto`: a widget in a notebook, a line of a terminal.

    In a notebook without ipywidgets it is a line of text there.

    Parameters
    ----------
    shown : bool
        False: no bar. True: a bar if standard error is a terminal or a notebook shows it.
    **options
        As `tqdm.tqdm` takes them.
    """
    from tqdm.auto import tqdm

    # None leaves the question to tqdm, which asks whether the stream is a terminal; that of a
    # notebook never is.
    disable = True if not shown else False if in_notebook() else None
    return tqdm(disable=disable, **options)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and "IPKernelApp" in running.config
