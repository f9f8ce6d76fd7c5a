"""Memory that runs out while a file is read is an error that names the file and the remedy."""

import subprocess
import sys

import numpy as np
import pytest

from rankplug import write_data
from rankplug.data import RankingData
from rankplug.io.shortage import is_shortage

READ = """\
import resource, sys
import pandas, pyarrow.csv, pyarrow.parquet, rankplug, rankplug.io.batches, scipy.sparse
from rankplug.exceptions import DataError

path, way, folder = sys.argv[1:]
pyarrow.csv.read_csv(pyarrow.BufferReader(b"a\\n1\\n"))
with open("/proc/self/statm") as stream:
    size = int(stream.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (56 << 20), size + (56 << 20)))
try:
    if way == "read":
        rankplug.read_data(path)
    else:
        options = {"n_features": 60, "batch_rows": 150_000}
        list(rankplug.io.batches.read_batches(path, **options))
except DataError as error:
    assert isinstance(error, MemoryError)
    print(error)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    X = np.random.default_rng(0).integers(0, 9, (150_000, 60)).astype(float)
    data = RankingData.from_arrays(X, np.arange(150_000) % 3, np.arange(150_000) // 50)
    for ending in ("parquet", "arrow"):
        write_data(data, folder / f"data.{ending}")
    return folder


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for the memory in use")
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("way", "remedy"), [("read", "rankplug prepare"), ("batches", "fewer rows at a time")]
)
def test_the_file_and_the_remedy_are_named(files, tmp_path, ending, way, remedy):
    path = files / f"data.{ending}"
    command = [sys.executable, "-c", READ, str(path), way, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{path}: there is not enough memory: ")
    assert remedy in done.stdout


def test_errors_of_mapping_are_known():
    assert is_shortage(OSError(12, "Cannot allocate memory"))
    assert is_shortage(OSError("Memory mapping file failed: Cannot allocate memory"))
    assert not is_shortage(OSError(28, "No space left on device"))
