"""Preparing data goes on after any interruption; a damaged folder is told from a sound one."""

import errno
import fcntl
import hashlib
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rankplug import prepare, read_data
from rankplug.exceptions import DataError, ParameterError
from rankplug.io import open_prepared, svmlight, verify_prepared
from rankplug.io.prepared import job, npy, sealing
from rankplug.io.prepared.manifest import manifest_digest

N_QUERIES, N_FEATURES = 40, 5


def text(order="sorted", seed=0, width=N_FEATURES):
    """Rows of 40 queries; "mixed": in any order, so that they have to be brought together."""
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(N_QUERIES), 6)
    if order == "mixed":
        rng.shuffle(query)
    lines = []
    for q in query:
        features = " ".join(f"{j}:{rng.normal()!r}" for j in range(1, width + 1))
        lines.append(f"{rng.integers(0, 3)} qid:{q} {features}\n")
    return "".join(lines)


@pytest.fixture
def small_steps(monkeypatch):
    take_small_steps(monkeypatch.setattr)


def take_small_steps(set_):
    set_(svmlight, "_BLOCK", 1000)
    set_(npy, "_SAVE_BYTES", 1)
    set_(sealing, "_BLOCK_ELEMENTS", 100)
    set_(os, "fsync", lambda descriptor: None)


def content(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


# --- going on ---


class Killed(BaseException):
    """What a test raises to stop the work at some point."""


def killed_at(monkeypatch, count, module=npy, name="_write_all"):
    """Stop at the n-th call, in the middle of what it writes."""
    whole, calls = getattr(module, name), iter(range(1, 1 << 30))

    def part(stream, data):
        if next(calls) >= count:
            whole(stream, data[: len(data) // 2])
            raise Killed
        whole(stream, data)

    monkeypatch.setattr(module, name, part)


def interrupted(monkeypatch, file, target):
    """Some of the work."""
    with monkeypatch.context() as patch:
        killed_at(patch, 60)
        with pytest.raises(Killed):
            prepare(file, target)


@pytest.mark.parametrize("order", ["sorted", "mixed"])
def test_work_goes_on_wherever_it_ended(tmp_path, monkeypatch, small_steps, order):
    file = tmp_path / "data.txt"
    file.write_text(text(order))
    writes, write = [], npy._write_all
    with monkeypatch.context() as patch:
        patch.setattr(npy, "_write_all", lambda *a: writes.append(1) or write(*a))
        prepare(file, tmp_path / "whole", scale="standard", shard_bytes=1000)
    for count in (1, 2, *range(3, len(writes), len(writes) // 8), len(writes)):
        with monkeypatch.context() as patch:
            killed_at(patch, count)
            with pytest.raises(Killed):
                prepare(file, tmp_path / "data", scale="standard", shard_bytes=1000)
        assert not (tmp_path / "data").exists()
        prepare(file, tmp_path / "data", scale="standard", shard_bytes=1000)
        assert content(tmp_path / "data") == content(tmp_path / "whole"), count
        shutil.rmtree(tmp_path / "data")


def test_what_was_read_is_not_read_again(tmp_path, monkeypatch, small_steps):
    file = tmp_path / "data.txt"
    file.write_text(text())
    parsed, parse = [], svmlight.parse_block
    monkeypatch.setattr(svmlight, "parse_block", lambda *a: parsed.append(len(a[0])) or parse(*a))
    interrupted(monkeypatch, file, tmp_path / "data")
    first = len(parsed)
    prepare(file, tmp_path / "data")
    again = len(parsed) - first
    assert 0 < sum(parsed) - file.stat().st_size <= 1300, "one block at most is parsed twice"
    assert first > 5
    assert again > 5


def prepare_in_small_steps(file, output):
    take_small_steps(setattr)
    prepare(file, output, scale="maxabs", shard_bytes=1000)


def test_a_process_killed_at_any_moment_leaves_nothing_half_done(tmp_path):
    file, target = tmp_path / "data.txt", tmp_path / "data"
    file.write_text(text("mixed", width=20))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rankplug.io", "pyarrow.csv", "sklearn.preprocessing", "tqdm"])

    def run(output, seconds=None):
        process = context.Process(target=prepare_in_small_steps, args=(file, output))
        process.start()
        process.join(seconds)
        process.kill()
        process.join()
        assert process.exitcode in ((0,) if seconds is None else (0, -signal.SIGKILL))

    run(tmp_path / "warm up")
    started = time.perf_counter()
    run(tmp_path / "whole")
    seconds = time.perf_counter() - started
    draw = random.Random(0)
    for _ in range(6):
        if target.exists():
            break
        run(target, draw.uniform(0.05, 0.6) * seconds)
        if target.exists():
            verify_prepared(target)
    run(target)
    assert content(target) == content(tmp_path / "whole")
    assert not (tmp_path / ".data.partial").exists()


def test_a_full_disk_is_told_and_what_was_done_is_kept(tmp_path, small_steps):
    file, target = tmp_path / "data.txt", tmp_path / "data"
    file.write_text(text())
    prepare(file, tmp_path / "whole")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, hard))
        with pytest.raises(DataError, match=r"cannot be written: File too large; the same call"):
            prepare(file, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    state = json.loads((tmp_path / ".data.partial" / "state.json").read_text())
    assert state["state"]["position"]["all_rows"] > 50
    assert not target.exists()
    prepare(file, target)
    assert content(target) == content(tmp_path / "whole")


def test_a_disk_full_from_the_first_leaves_nothing(tmp_path, monkeypatch, small_steps):
    (tmp_path / "data.txt").write_text(text())

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(npy, "_write_all", full)
    with pytest.raises(DataError, match=r"cannot be written: No space left on device$"):
        prepare(tmp_path / "data.txt", tmp_path / "data")
    assert [file.name for file in tmp_path.iterdir()] == ["data.txt"]


@pytest.mark.parametrize("change", ["file", "argument", "lost"])
def test_other_files_or_arguments_begin_anew(tmp_path, monkeypatch, small_steps, change):
    file, target = tmp_path / "data.txt", tmp_path / "data"
    file.write_text(text())
    interrupted(monkeypatch, file, target)
    arguments = {}
    if change == "file":
        file.write_text(text(seed=1))
    elif change == "argument":
        arguments["dtype"] = "float32"
    else:  # what a crash of the machine may have left
        (tmp_path / ".data.partial" / "runs").write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="beginning again"):
        prepare(file, target, **arguments)
    np.testing.assert_array_equal(read_data(target).X, read_data(file, **arguments).X)


def test_wrong_data_leave_nothing(tmp_path, small_steps):
    file = tmp_path / "data.txt"
    file.write_text("1 qid:1 1:2\n1 qid:1 1:x\n")
    with pytest.raises(DataError, match="line 2: feature 1: 'x' is not a number"):
        prepare(file, tmp_path / "data")
    assert [file.name for file in tmp_path.iterdir()] == ["data.txt"]


def test_a_file_that_changes_meanwhile_is_told(tmp_path, monkeypatch, small_steps):
    file = tmp_path / "data.txt"
    file.write_text(text())
    parse = svmlight.parse_block

    def touched(*arguments):
        os.utime(file, ns=(1, 1))
        return parse(*arguments)

    monkeypatch.setattr(svmlight, "parse_block", touched)
    with pytest.raises(DataError, match="changed while being read"):
        prepare(file, tmp_path / "data")


def test_two_processes_do_not_prepare_the_same_folder(tmp_path):
    file = tmp_path / "data.txt"
    file.write_text(text())
    (tmp_path / ".data.partial").mkdir()
    with (tmp_path / ".data.partial" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another process is preparing"):
            prepare(file, tmp_path / "data")
    prepare(file, tmp_path / "data")


def test_what_stands_in_the_way_is_left_alone(tmp_path):
    file, other = tmp_path / "data.txt", tmp_path / "other.txt"
    file.write_text(text())
    other.write_text(text(seed=1))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "note").write_text("mine")
    with pytest.raises(ParameterError, match="exists and is no prepared folder"):
        prepare(file, mine, overwrite=True)
    with pytest.raises(ParameterError, match="exists and is no prepared folder"):
        prepare(file, mine / "note", overwrite=True)
    (tmp_path / ".data.partial").mkdir()
    (tmp_path / ".data.partial" / "note").write_text("mine")
    with pytest.raises(ParameterError, match="is something else"):
        prepare(file, tmp_path / "data")
    (tmp_path / ".data.partial" / "note").unlink()
    (tmp_path / "data").mkdir()  # an empty one is filled
    first = prepare(file, tmp_path / "data")
    assert prepare(file, tmp_path / "data") == first
    with pytest.raises(ParameterError, match="overwrite"):
        prepare(other, tmp_path / "data")
    second = prepare(other, tmp_path / "data", overwrite=True)
    assert second.manifest.sources != first.manifest.sources
    np.testing.assert_array_equal(second.data().X, read_data(other).X)
    assert {one.name for one in tmp_path.iterdir()} == {"data.txt", "other.txt", "mine", "data"}


# --- damage ---


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Prepared folders by layout."""
    parent = tmp_path_factory.mktemp("sound")
    file = parent / "data.txt"
    file.write_text(text("mixed"))
    for layout in ("dense", "sparse"):
        scale = {"dense": "standard", "sparse": "none"}[layout]
        prepare(file, parent / layout, dense=layout == "dense", scale=scale, shard_bytes=1000)
    return parent


@pytest.fixture
def folder(request, sound, tmp_path):
    return shutil.copytree(sound / request.param, tmp_path / "data")


def change(file, position=-1):
    """Another byte at some place."""
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(content)


NAMES = {
    "dense": "features relevance query_ptr query_ids order factor shift",
    "sparse": "values columns row_ptr relevance query_ptr query_ids order",
}
EACH = [(layout, name) for layout in NAMES for name in NAMES[layout].split()]


@pytest.mark.parametrize(("folder", "name"), EACH, indirect=["folder"])
def test_damaged_arrays_are_told(folder, name):
    file = folder / f"{name}.npy"
    assert {one.stem for one in folder.iterdir()} >= set(
        NAMES[open_prepared(folder).manifest.layout].split()
    )
    change(file, len(file.read_bytes()) * 3 // 4)
    with pytest.raises(DataError, match=name):
        verify_prepared(folder)
    change(file, 60)  # in the header
    with pytest.raises(DataError, match=rf"{name}\.npy is damaged: its header"):
        read_data(folder)
    with file.open("r+b") as stream:
        stream.truncate(file.stat().st_size - 1)
    with pytest.raises(DataError, match=rf"{name}\.npy is damaged: [\d,]+ bytes instead of [\d,]+"):
        read_data(folder)
    file.unlink()
    with pytest.raises(DataError, match=rf"{name}\.npy cannot be read: No such file"):
        read_data(folder)


@pytest.mark.parametrize("folder", ["dense"], indirect=True)
def test_what_is_no_prepared_folder(folder, tmp_path):
    with pytest.raises(DataError, match=r"no manifest\.json: make one with 'rankplug prepare'"):
        read_data(tmp_path)
    with pytest.raises(DataError, match="no manifest"):
        open_prepared(tmp_path / "nowhere")
    with pytest.raises(DataError, match="cannot be read: Not a directory"):
        open_prepared(folder / "features.npy")
    for wrong in (b"", b"{", b"\xff", b"[" * 100_000, b"[]", b'{"format": "mine"}'):
        (folder / "manifest.json").write_bytes(wrong)
        with pytest.raises(DataError, match=r"manifest\.json"):
            read_data(folder)


def rewrite(folder, **changes):
    """Another manifest, whose digest fits."""
    file = folder / "manifest.json"
    manifest = {**json.loads(file.read_text()), **changes}
    del manifest["sha256"]
    manifest = {key: value for key, value in manifest.items() if value is not ...}
    file.write_text(json.dumps({**manifest, "sha256": manifest_digest(manifest)}))


def within(manifest, path, value):
    """A change somewhere inside."""
    part = manifest
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return manifest


@pytest.mark.parametrize("folder", ["dense"], indirect=True)
def test_a_changed_manifest_is_told(folder):
    file = folder / "manifest.json"
    file.write_text(file.read_text().replace('"n_queries": 40', '"n_queries": 39'))
    with pytest.raises(DataError, match="was changed after it was written"):
        read_data(folder)


@pytest.mark.parametrize("folder", ["sparse"], indirect=True)
@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["version"], 2, "of version 2, this rankplug reads version 1"),
        (["version"], "../1", "of version '../1'"),
        (["n_samples"], -1, "sizes must be positive"),
        (["n_samples"], True, "sizes must be positive"),
        (["n_samples"], 10**30, "sizes must be positive"),
        (["n_samples"], 241, "shape"),
        (["n_features"], 4.0, "sizes must be positive"),
        (["n_values"], 1, "shape"),
        (["layout"], "../dense", "unknown layout '../dense'"),
        (["layout"], [], "unknown layout []"),
        (["layout"], "dense", "arrays are missing"),
        (["scale"], "huge", "unknown scale"),
        (["scale"], "standard", "arrays are missing"),
        (["feature_names"], ["a"], "1 names of 5 features"),
        (["feature_names"], "abcde", "feature names are no list"),
        (["arrays"], [], "no mapping"),
        (["arrays", "../x"], {}, "unknown array '../x'"),
        (["arrays", "features"], {"dtype": "<f8", "shape": [240, 5], "sha256": None}, "belong"),
        (["arrays", "values", "dtype"], "|O", "cannot be of type '|O'"),
        (["arrays", "query_ids", "dtype"], "<M8[x]", "cannot be of type"),
        (["arrays", "values", "shape"], [-1], "cannot be of shape"),
        (["arrays", "values", "file"], "../../x", "is not described"),
        (["arrays", "relevance", "sha256"], None, "has no digest"),
        (["arrays", "columns", "dtype"], "<i8", "different types"),
        (["shards"], [], "shards have gaps"),
        (["shards", 0, "rows"], [1, 5], "shards have gaps"),
        (["shards", 0, "rows"], [5, 1], "cannot reach over"),
        (["shards", 0, "sha256"], {}, "a shard has no digests"),
        (["shards", 0, "file"], "../x", "a shard is not described"),
        (["more"], 1, "missing or unknown"),
        (["sources"], ..., "missing or unknown"),
    ],
)
def test_a_manifest_is_checked_strictly(folder, path, value, message):
    rewrite(folder, **within(json.loads((folder / "manifest.json").read_text()), path, value))
    with pytest.raises(DataError, match=re.escape(message)):
        read_data(folder)


@pytest.mark.parametrize("folder", ["sparse"], indirect=True)
@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("columns", [5], "indices"),
        ("columns", [-1], "indices"),
        ("columns", [1, 1], "indices"),
        ("row_ptr", [0, 10, 9], "indices"),
        ("row_ptr", [0, 2**31 - 1], "indices"),
        ("row_ptr", [0, -(2**31), 2**31 - 1], "indices"),
        ("values", [np.inf], "not finite"),
        ("query_ptr", [0, 9, 8], "query_ptr.npy is damaged"),
        ("query_ptr", [1], "query_ptr.npy is damaged"),
        ("row_ptr", [1], "row_ptr.npy is damaged"),
    ],
)
def test_nonsense_whose_digests_fit_is_found(folder, name, values, message):
    file = folder / f"{name}.npy"
    array = np.load(file, mmap_mode="r+")
    array[: len(values)] = values
    array.flush()
    manifest = json.loads((folder / "manifest.json").read_text())
    whole = hashlib.sha256(array.tobytes()).hexdigest()
    if name in ("values", "columns"):
        for shard in manifest["shards"]:
            part = hashlib.sha256(array[slice(*shard["values"])].tobytes())
            shard["sha256"][name] = part.hexdigest()
    else:
        manifest["arrays"][name]["sha256"] = whole
    rewrite(folder, **manifest)
    with pytest.raises(DataError, match=message):
        verify_prepared(folder)


# --- memory ---

BOUNDED = """
import resource, sys
from pathlib import Path
import rankplug
from rankplug.io import svmlight
from rankplug.io.prepared import sealing

svmlight._BLOCK = sealing._BLOCK_ELEMENTS = 1 << 18
file, target = sys.argv[1:]
small = Path(target + "-small.txt")
with open(file) as stream:
    small.write_text("".join(next(stream) for _ in range(2000)))
rankplug.prepare(small, target + "-small", scale="standard")
lines = Path("/proc/self/status").read_text().splitlines()
used = next(int(line.split()[1]) for line in lines if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + (24 << 20),) * 2)
try:
    rankplug.read_data(file)
except MemoryError:
    print("too large for the memory")
rankplug.prepare(file, target, scale="standard")
X = rankplug.read_data(target).X
print(X.nbytes >> 20, "MB")
"""


def test_a_removal_that_is_cut_short_leaves_what_can_be_told_for_what_it_is(tmp_path, monkeypatch):
    (tmp_path / "rows").mkdir()
    for name in ("lock", "state.json", "a.npy", "z.npy", "rows/features.npy"):
        (tmp_path / name).touch()
    unlink = Path.unlink

    def killed_at_the_state(path):
        if path.name == "state.json":
            raise KeyboardInterrupt
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed_at_the_state)
        with pytest.raises(KeyboardInterrupt):
            job.remove(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"lock", "state.json"}
    job.remove(tmp_path)
    assert not tmp_path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory as Linux does")
def test_files_larger_than_memory(tmp_path):
    """A limit of 24 MB over what is used already; the rows are scattered and take 40 MB."""
    rng = np.random.default_rng(0)
    values = [" ".join(f"{j}:{v:.2f}" for j, v in enumerate(rng.random(50), 1)) for _ in range(50)]
    query = np.repeat(rng.permutation(np.repeat(np.arange(2000), 10)), 5)
    file = tmp_path / "data.txt"
    with file.open("w") as stream:
        stream.writelines(f"{q % 3} qid:{q} {values[q % 50]}\n" for q in query.tolist())
    command = [sys.executable, "-c", BOUNDED, str(file), str(tmp_path / "data")]
    # Memory that malloc keeps for each thread, and the 8 MB of a thread's stack, would count,
    # however little of it is used; and Arrow makes more threads whenever it finds all at work.
    one = dict.fromkeys(("MALLOC_ARENA_MAX", "ARROW_IO_THREADS", "OMP_NUM_THREADS"), "1")
    environment = {**os.environ, **one}
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["too large for the memory", "38 MB"]
    data = read_data(tmp_path / "data")
    assert np.all(np.diff(data.query_ptr) == 50)
    assert abs(data.X.mean()) < 1e-9
