"""A short run of what `tests/long/soak.py` does for longer."""

import importlib.util
from pathlib import Path

spec = importlib.util.spec_from_file_location("soak", Path(__file__).with_name("soak.py"))
soak = importlib.util.module_from_spec(spec)
spec.loader.exec_module(soak)


def test_nothing_grows_in_a_few_rounds():
    (megabytes, files, threads), counts = soak.soak(3, with_reports=False, tell=lambda _: None)
    assert counts["trials"] == 9
    assert counts["requests"] == 3 * soak.N_REQUESTS
    assert megabytes < soak.SLACK_MB
    assert files <= 0
    assert threads <= 0
