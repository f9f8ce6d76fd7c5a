"""The cluster of ``--dask ADDRESS``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rankplug.tuning import TuneResult

__all__ = ["tuning_on"]

Tune: TypeAlias = "Callable[..., TuneResult] | None"

_PATIENCE = 30.0  # seconds


@contextmanager
def tuning_on(address: str | None) -> Iterator[Tune]:
    """`rankplug.tune` with its trials on a Dask cluster; None without an address.

    Parameters
    ----------
    address : str or None
        Of the scheduler, such as ``tcp://10.0.0.1:8786``.

    Raises
    ------
    ClusterError
        If no scheduler answers there.
    ParameterError
        If Dask is not installed.
    """
    if address is None:
        yield None
        return
    from rankplug.exceptions import ClusterError, ParameterError

    try:
        from distributed import Client

        from rankplug.dask import tune as tune_there
    except ImportError as error:
        raise ParameterError(f"--dask: {error}") from None
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"--dask {address}: no Dask scheduler answers there ({error})") from None
    with client:
        yield partial(tune_there, client=client)
