"""A logged model's environment is really made, by MLflow and virtualenv, and answers requests."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pandas as pd
import pytest

import rankplug.mlflow
from rankplug import Ranker

SECONDS_TO_INSTALL = 1500
SECONDS_TO_ANSWER = 120


pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("RANKPLUG_CLEAN_VENV"),
        reason="set RANKPLUG_CLEAN_VENV=1 to make an environment from the package index: minutes",
    ),
    pytest.mark.skipif(
        shutil.which("pyenv") is None,
        reason="MLflow makes environments with pyenv, which is not installed",
    ),
]


@pytest.fixture(autouse=True)
def package_index(tmp_path):
    """Skip where pip reaches none."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(tmp_path / "try")]
    asked = subprocess.run([*pip, "cloudpickle"], capture_output=True, text=True)
    if asked.returncode:
        pytest.skip(f"pip reaches no package index: {asked.stderr[-300:]}")


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def answer(port, body, kind):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/invocations", body.encode(), {"Content-Type": kind}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["predictions"]


def wait_for(port, process):
    end = time.monotonic() + SECONDS_TO_ANSWER
    while time.monotonic() < end:
        assert process.poll() is None, "the server has ended"
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=5)
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
        else:
            return
    raise TimeoutError("the server does not answer")


def test_a_model_is_served_from_the_environment_that_it_names(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["price", "clicks", "age"])
    ranker = Ranker("tree-tron").fit(frame, frame["price"].round(), qid=np.repeat([1, 2], 20))
    model = tmp_path / "model"
    rankplug.mlflow.save_model(ranker, model)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    }
    environment |= {
        "MLFLOW_ENV_ROOT": str(tmp_path / "environments"),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PIP_NO_CACHE_DIR": "1",
    }
    mlflow = [sys.executable, "-m", "mlflow", "models"]
    manager = ["-m", str(model), "--env-manager", "virtualenv"]
    made = subprocess.run(
        [*mlflow, "prepare-env", *manager],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_TO_INSTALL,
    )
    assert made.returncode == 0, made.stderr[-3000:]
    (own,) = (tmp_path / "environments").glob("*/bin/python")
    code = "import rankplug; print(rankplug.__file__)"
    where = subprocess.run(
        [own, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert str(own.parents[1]) in where.stdout
    port = free_port()
    server = subprocess.Popen(
        [*mlflow, "serve", *manager, "--port", str(port)],
        env=environment,
        cwd=tmp_path,
        start_new_session=True,
    )
    try:
        wait_for(port, server)
        sent = json.dumps({"dataframe_split": frame.to_dict(orient="split", index=False)})
        for body, kind in ((sent, "application/json"), (frame.to_csv(index=False), "text/csv")):
            np.testing.assert_allclose(answer(port, body, kind), ranker.predict(frame), rtol=1e-12)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)
