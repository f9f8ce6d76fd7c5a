"""Signals whose exception other code turns into its own error, as pydantic does in imports."""

import signal

import pytest

from rankplug import cli
from rankplug.cli import models
from rankplug.exceptions import ParameterError


@pytest.mark.parametrize("error", [RuntimeError, ParameterError, OSError])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_status_is_that_of_the_signal(number, error, monkeypatch, capfd):
    def turn_into_error(_):
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt as interrupt:
            raise error(f"cannot be built: {interrupt!r}") from None

    monkeypatch.setattr(models, "_solvers", turn_into_error)
    assert cli.main(["solvers"]) == 128 + number
    assert capfd.readouterr().err.strip() == "interrupted: ending the command"
