"""Progress bars of passes over data."""

from __future__ import annotations

from typing import Self

__all__ = ["Bar"]


class Bar:
    """How far one of the passes is; writes only if standard error is a terminal."""

    def __init__(
        self, name: str, unit: str, total: int, *, start: int = 0, shown: bool = True
    ) -> None:
        from tqdm import tqdm

        self._bar = tqdm(
            desc=name,
            unit=unit,
            unit_scale=True,
            total=total,
            initial=start,
            disable=None if shown else True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def move_to(self, done: int) -> None:
        """Show how much is done."""
        self._bar.update(done - self._bar.n)
