"""A short run of what `tests/long/soak.py` does for longer, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROUNDS = """
import json, soak
grown, counts = soak.soak(3, with_reports=False, tell=lambda _: None)
print(json.dumps([grown, counts, soak.N_REQUESTS, soak.SLACK_MB]))
"""


def test_nothing_grows_in_a_few_rounds():
    ended = subprocess.run(
        [sys.executable, "-c", ROUNDS], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    assert ended.returncode == 0, ended.stderr
    (megabytes, files, threads), counts, n_requests, slack = json.loads(ended.stdout)
    assert counts["trials"] == 9
    assert counts["requests"] == 3 * n_requests
    assert megabytes < slack
    assert files <= 0
    assert threads <= 0
