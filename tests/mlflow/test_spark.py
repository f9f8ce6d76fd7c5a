"""A logged model as a function of Spark: ``mlflow.pyfunc.spark_udf`` on a local session."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import rankplug.mlflow
from rankplug import Ranker

# Spark's and MLflow's own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def _java_version():
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else ""
    program = shutil.which(java or "java")
    if program is None:
        return None
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    return told.stderr.splitlines()[0] if told.returncode == 0 else None


@pytest.fixture
def spark(monkeypatch, tmp_path):
    sql = pytest.importorskip("pyspark.sql", reason="needs pyspark: pip install 'rankplug[spark]'")
    if _java_version() is None:
        pytest.skip("needs Java 17 or newer: no java on PATH or in JAVA_HOME")
    # The workers are to be of this Python, and Spark's files in the test's folder.
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        sql.SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", str(tmp_path / "warehouse"))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )
    yield session
    session.stop()


def test_a_model_scores_the_rows_of_a_spark_frame(spark, tmp_path):
    import mlflow
    from pyspark.sql.functions import struct

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    ranker = Ranker().fit(frame, np.round(frame["a"]), qid=np.repeat(np.arange(4), 10))
    rankplug.mlflow.save_model(ranker, tmp_path / "model")
    score = mlflow.pyfunc.spark_udf(
        spark, (tmp_path / "model").as_uri(), result_type="double", env_manager="local"
    )
    rows = spark.createDataFrame(frame.values.tolist(), ["a", "b", "c"])
    scored = rows.withColumn("score", score(struct("a", "b", "c"))).collect()
    np.testing.assert_array_equal([row["score"] for row in scored], ranker.predict(frame))
