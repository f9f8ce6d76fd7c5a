"""Signals during imports: other code makes errors of its own of them, or Python drops them."""

import signal

import pytest

from rankplug import cli
from rankplug.cli import models
from rankplug.exceptions import ParameterError
from tests.processes import run_python

# Python drops an exception where an import calls back for a weak reference; here it does so when
# the module is looked for that the first argument names.
LOSING = """
import runpy, signal, sys, weakref

class Thing: pass

class Losing:
    name = sys.argv.pop(1)

    def find_spec(self, name, path, target=None):
        if name == self.name:
            thing = Thing()
            reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
            del thing

sys.meta_path.insert(0, Losing())
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.modules["numpy"] = None  # what takes time is not imported before signals are handled
runpy.run_module("rankplug", run_name="__main__")
"""


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


@pytest.mark.parametrize(
    ("module", "status", "told"),
    [
        ("rankplug.cli.evaluate", -signal.SIGINT, ""),
        ("rankplug_recipes", 130, "interrupted: ending the command"),
    ],
    ids=["of the commands", "of a command"],
)
def test_a_lost_ctrl_c_ends_the_program(module, status, told):
    ended = run_python(LOSING, module, "run", timeout=60)
    assert ended.returncode == status, ended.stderr
    assert ended.stdout == "" or status > 0
    assert told in ended.stderr
