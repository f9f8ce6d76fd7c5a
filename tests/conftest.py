import faulthandler
import gc
import itertools
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
# Waiting threads of XGBoost and OpenBLAS otherwise keep the cores from each other.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Every process that a test starts would otherwise compile all of rankplug again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Shells start what runs in the background with Ctrl-C ignored, and so would all tests of it be.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Databases of MLflow wait for the disk after every line that they log, minutes in all.
_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM and os.access(_MEMORY, os.W_OK):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# No deadline: machines differ in speed. Derandomised: a failure is the same everywhere.
settings.register_profile("rankplug", deadline=None, derandomize=True)
settings.load_profile("rankplug")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """A worker more than cores for ``-n auto``, as many tests wait for processes and servers."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return (os.cpu_count() or 1) + 1


# Files that wait for servers, commands and workers of a cluster, the longest first.
_WAITING = [
    "mlflow/test_spool",
    "mlflow/test_serving",
    "dask/test_collections",
    "mlflow/test_serving_signals",
    "benchmarks/test_benchmarks",
    "tuning/test_storage",
    "system/test_interruption_processes",
    "system/test_concurrency",
    "cli/test_streams",
    "dask/test_tuning",
    "cli/test_mlproject",
    "mlflow/test_killed_runs",
    "cli/test_one_file",
    "mlflow/test_tracking",
    "dask/test_silences",
    "mlflow/test_pyfunc",
    "mlflow/test_database",
    "dask/test_faults",
    "mlflow/test_environment",
    "io/test_prepared_faults",
    "io/test_shortage",
    "test_notebook",
    "cli/test_cli",
    "dask/test_dask",
    "dask/test_comparison",
    "mlflow/test_flavor",
    "report/test_look_browser",
    "system/test_lost_interrupts",
]


def pytest_collection_modifyitems(config, items):
    """On parallel workers, files that wait and files that compute take turns from the start.

    So the cores are busy while some wait, and no long file begins when all else is done.
    """
    if not hasattr(config, "workerinput"):
        return
    files = {}
    for item in items:
        name = item.path.relative_to(Path(__file__).parent).with_suffix("").as_posix()
        files.setdefault(name, []).append(item)
    waiting = [name for name in _WAITING if name in files]
    computing = sorted(files.keys() - set(waiting), key=lambda name: (-len(files[name]), name))
    turns = itertools.zip_longest(waiting, computing)
    items[:] = [item for name in itertools.chain(*turns) if name for item in files[name]]


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real data sets named by RANKPLUG_DATA."""
    folder = os.environ.get("RANKPLUG_DATA")
    if not folder:
        pytest.skip("needs real data: set RANKPLUG_DATA to their folder")
    if not Path(folder).is_dir():
        pytest.fail(f"RANKPLUG_DATA={folder} is not a folder")
    return Path(folder)


@pytest.fixture(autouse=True, scope="module")
def old_objects():
    """What earlier files have left is no garbage: collections, one a training, need not walk it."""
    gc.collect()
    gc.freeze()


_MLFLOW_STORE = "mlflow.tracking._tracking_service.utils"


def _store_of_mlflow():
    """What `mlflow.set_tracking_uri` has set, which comes before the environment."""
    return getattr(sys.modules.get(_MLFLOW_STORE), "_tracking_uri", None)


@pytest.fixture(autouse=True)
def mlflow_environment():
    """MLflow keeps the store that a test chooses; the next test must not find it."""
    before = {name: value for name, value in os.environ.items() if name.startswith("MLFLOW_")}
    chosen = _store_of_mlflow()
    yield
    if _store_of_mlflow() != chosen:
        sys.modules[_MLFLOW_STORE]._tracking_uri = chosen
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """A tracking database to copy: MLflow takes seconds to make one."""
    from mlflow import MlflowClient

    folder = tmp_path_factory.mktemp("store")
    MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db").search_experiments()
    return folder / "mlflow.db"


@pytest.fixture
def no_hang():
    """A minute for a test of hostile input, and then an error; two, and the process ends."""

    def ring(*_):
        raise TimeoutError("hangs: not done after a minute")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    faulthandler.dump_traceback_later(120, exit=True)  # also out of native code
    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()
