"""What Dask ranking is made of, without a cluster."""

import pickle

import numpy as np
import pandas as pd
import pytest
from dask.sizeof import sizeof

from rankplug import RankingData, prepare, write_data
from rankplug.dask.loading import equal_runs, open_partition
from rankplug.dask.reading import (
    Crossing,
    Refusal,
    assemble,
    ends_of,
    find_crossings,
    may_overlap,
    read_partition,
    require_one_kind,
)
from rankplug.dask.worker import Message, Opening, Operation, PartialSum, add, make_partition_shards
from rankplug.exceptions import DataError
from rankplug.objectives import Hinge, SmoothedHinge, SquaredHinge
from rankplug.shards import Shard, ShardState, open_shards, pair_totals, pair_weights, state_after

N_FEATURES = 5


def made(seed=0, n=120, n_queries=8):
    rng = np.random.default_rng(seed)
    qid = np.sort(rng.integers(0, n_queries, n))
    X, y = rng.normal(size=(n, N_FEATURES)), rng.integers(0, 4, n)
    weights = {"sample_weight": 1.0 + qid % 3, "document_weight": rng.random(n)}
    return RankingData.from_arrays(X, y, qid, **weights)


def a_shard(data):
    with open_shards(data, pair_weights(data, "sum"), n_threads=1) as shards:
        (shard,) = shards.shards
    return shard


def evaluate(loss, **options):
    return loss(None, **options).evaluate


# ---- a shard can be restored from vectors of weights ----

RULES = [evaluate(SquaredHinge), evaluate(Hinge), evaluate(SmoothedHinge, width=0.5)]


def vector(rng):
    return rng.normal(size=N_FEATURES)


def newton_step(rng, rule):
    """What Newton's method asks of a shard, with a line search of two steps."""
    yield Shard.gradient, ()
    yield Shard.laplacian_diagonal, ()
    yield Shard.start_direction, ()
    for _ in range(3):
        yield Shard.laplacian, (vector(rng),)
        yield Shard.extend_direction, (0.3,)
    yield Shard.loss_along_with_gradient, (1.0, rule)
    yield Shard.loss_along, (0.5, rule)
    yield Shard.accept, ()
    yield Shard.gradient, ()
    yield Shard.laplacian_gram, (1.0,)


def bundle_step(rng, rule):
    """What the bundle method asks of a shard."""
    yield Shard.aim_at, (vector(rng),)
    yield Shard.slope, ()
    yield Shard.line, (1.0, rule)
    yield Shard.line, (0.4, rule)
    yield Shard.accept, ()
    yield Shard.loss_along, (0.1, rule)
    yield Shard.gradient_along, ()


def smoothed_step(rng, rule):
    """What Newton's method on Huber hinges asks of a shard in addition."""
    yield Shard.hinge, ()
    yield Shard.clipped_slack, ()
    yield Shard.rounding, ()
    yield Shard.stay, (RULES[2],)
    yield from newton_step(rng, RULES[2])


def script(seed):
    """Operations that go together, in an order that differs from seed to seed."""
    rng = np.random.default_rng(seed)
    rule = RULES[seed % 3]
    yield Shard.move_to_with_gradient, (None if seed % 2 else vector(rng), rule)
    for _ in range(4):
        steps = [newton_step, bundle_step]
        if seed % 3 == 2:
            steps.append(smoothed_step)
        yield from steps[rng.integers(len(steps))](rng, rule)
        if rng.random() < 0.3:
            yield Shard.move_to, (vector(rng), rule)
        if rng.random() < 0.3:
            yield Shard.loss_along_with_gradient, (0.7, rule)
            yield Shard.accept, ()


def assert_close(found, expected):
    assert type(found) is type(expected)
    if expected is not None:
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(9))
def test_a_new_shard_goes_on_where_another_was(seed):
    data = made(seed)
    shard, state = a_shard(data), ShardState()
    for operation, arguments in script(seed):
        call = Operation.of(operation, arguments)
        if state.evaluate is not None:
            other = a_shard(data)
            other.restore(state)
            copy = pickle.loads(pickle.dumps(call))
            assert_close(copy(other), call(shard))
        else:
            call(shard)
        state = state_after(operation, state, call.arguments)
    assert all(len(v) == N_FEATURES for v in (state.w, state.direction) if v is not None)


def test_calls_do_not_change_with_the_arrays_of_the_caller():
    v = np.zeros(3)
    call = Operation.of(Shard.laplacian, (v,))
    v[:] = 1.0
    assert call.arguments[0].tolist() == [0, 0, 0]
    assert call.nbytes == 24


# ---- the shards of a partition, on its worker ----

OPENING = Opening("sum", None, n_threads=1)


def message(step, operation, *arguments, queued=(), state=None):
    return Message(step, tuple(queued), Operation.of(operation, arguments), state)


def test_a_partition_goes_from_step_to_step_and_can_repeat_the_last_one():
    data = made()
    held, shard = make_partition_shards(data, OPENING), a_shard(data)
    rule, v = RULES[0], np.ones(N_FEATURES)
    first = held.work(data, message(1, Shard.move_to, v, rule))
    assert first == PartialSum(shard.move_to(v, rule))
    shard.laplacian(v)
    assert held.work(data, message(2, Shard.laplacian, v)).n_lost == 0
    queued = [Operation(Shard.start_direction), Operation(Shard.extend_direction, (0.5,))]
    along = message(3, Shard.loss_along, 1.0, rule, queued=queued)
    expected = shard.move_to(1.5 * v, rule)
    for _ in range(3):
        assert held.work(data, along).value == pytest.approx(expected, rel=1e-12)


def test_a_partition_that_has_missed_a_step_says_so_until_it_is_told_the_state():
    data = made()
    rule, v = RULES[0], np.ones(N_FEATURES)
    state = state_after(Shard.move_to, ShardState(), (v, rule))
    held = pickle.loads(pickle.dumps(make_partition_shards(data, OPENING)))
    asked = message(7, Shard.gradient)
    assert held.work(data, asked) == PartialSum(None, n_lost=1)
    told = message(7, Shard.gradient, state=state)
    shard = a_shard(data)
    shard.move_to(v, rule)
    assert held.work(data, told).value == pytest.approx(shard.gradient(), rel=1e-12)
    assert held.work(data, message(8, Shard.gradient)).n_lost == 0


def test_a_partition_that_failed_is_restored():
    data = made()
    rule, v = RULES[0], np.ones(N_FEATURES)
    held = make_partition_shards(data, OPENING)
    held.work(data, message(1, Shard.move_to, v, rule))
    wrong = message(2, Shard.gradient, queued=[Operation(Shard.aim_at, ("nonsense",))])
    with pytest.raises(TypeError):
        held.work(data, wrong)
    assert held.work(data, message(2, Shard.gradient)).n_lost == 1


def test_a_moved_partition_leaves_its_shards_behind():
    data = made(n=5000, n_queries=50)
    held = make_partition_shards(data, OPENING)
    held.work(data, message(1, Shard.move_to, None, RULES[0]))
    assert len(pickle.dumps(held)) < 1000
    assert held.__sizeof__() > 8 * data.n_samples


def test_parts_add_up_in_order_and_pass_on_what_is_lost():
    assert add([PartialSum(1.0), PartialSum(2.0), PartialSum(3.5)]) == PartialSum(6.5)
    assert add([PartialSum(1.0), PartialSum(None, 1), PartialSum(None, 2)]) == PartialSum(None, 3)


# ---- weights of the pairs of a part ----


@pytest.mark.parametrize("reduction", ["sum", "mean", "query-mean"])
def test_parts_of_the_data_weigh_their_pairs_as_all_of_them_do(reduction):
    data = made()
    parts = [data.take_queries(range(b, e)) for b, e in ((0, 3), (3, data.n_queries))]
    totals = pair_totals(parts[0]) + pair_totals(parts[1])
    assert totals == pair_totals(data)
    weights = [pair_weights(part, reduction, totals) for part in parts]
    assert np.concatenate(weights) == pytest.approx(pair_weights(data, reduction), rel=1e-15)


# ---- queries and the borders of partitions ----


def ends(*partitions):
    return [
        ends_of(i, RankingData.from_arrays(np.zeros((len(ids), 1)), np.zeros(len(ids)), ids))
        for i, ids in enumerate(partitions)
    ]


def crossings(*partitions):
    return find_crossings([np.unique(ids) for ids in partitions], ends(*partitions))


def test_queries_that_go_on_behind_a_border_are_found():
    found = crossings([1, 1, 2], [2, 2], [2, 3], [4, 5])
    assert found == [Crossing(2, (0, 1, 2))]
    assert crossings(["b", "a"], ["a", "c"]) == [Crossing("a", (0, 1))]
    assert crossings([1], [2], [3]) == []


@pytest.mark.parametrize(
    "partitions", [([7, 1], [2, 7]), ([1, 7, 2], [3], [7]), ([1, 7], [2, 7]), ([7, 1], [7, 2])]
)
def test_queries_in_the_midst_of_several_partitions_are_errors_that_name_them(partitions):
    with pytest.raises(DataError, match=r"query 7 .*shuffle\('qid'\)"):
        crossings(*partitions)


def test_only_overlapping_ranges_of_ids_need_a_closer_look():
    assert not may_overlap(ends([1, 2], [2, 5], [9, 7]))
    assert not may_overlap(ends([9, 7], [1, 2], [2, 5]))
    assert may_overlap(ends([1, 4], [3, 5]))


def test_ids_of_several_types_are_an_error():
    with pytest.raises(DataError, match="different types: 1 in partition 0, 'x' in partition 1"):
        require_one_kind([*ends([1]), ends([0], ["x"])[1]])


def test_partitions_are_put_together_with_what_is_taken_from_others():
    data = made()
    a, b = data.take_queries(range(3)), data.take_queries(range(3, 8))
    whole = assemble([a], [a.query_ids[1]], [b.take_queries([0])])
    assert whole.query_ids.tolist() == [a.query_ids[0], a.query_ids[2], b.query_ids[0]]
    assert whole.query_weight.tolist() == [data.query_weight[i] for i in (0, 2, 3)]
    assert whole.n_samples == sum(np.diff(data.query_ptr)[[0, 2, 3]])
    assert assemble([a], list(a.query_ids), []) is None
    assert assemble([a], [], []) is a


def test_what_is_wrong_in_a_partition_is_told_with_its_number():
    y, qid = np.zeros(2), np.array([1, 1])
    refusal = read_partition(3, np.array([[1.0], [np.inf]]), y, qid, None)
    assert refusal.reason.startswith("partition 3: X contains infinity (inf) at row 1")
    assert isinstance(read_partition(0, np.zeros((2, 1)), y, qid[:1], None), Refusal)
    varying = read_partition(0, np.zeros((2, 1)), y, qid, np.array([1.0, 2.0]))
    assert "varies within query 1" in varying.reason
    assert read_partition(0, np.zeros((0, 1)), y[:0], qid[:0], None) is None
    assert isinstance(read_partition(0, np.zeros((0, 1)), y, qid, None), Refusal)


def test_labels_of_several_types_are_not_compared():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=[1, "a"])
    y, qid = pd.Series([0, 1], index=["a", 1]), np.array([1, 1])
    assert read_partition(0, frame, y, qid, None).n_samples == 2


def test_a_worker_must_see_the_same_folder(tmp_path):
    write_data(made(), tmp_path / "data.parquet")
    folder = prepare(tmp_path / "data.parquet", tmp_path / "folder", progress=False)
    part = open_partition(str(folder.path), 120, 2, 5)
    np.testing.assert_array_equal(part.query_ids, folder.data().query_ids[2:5])
    with pytest.raises(DataError, match="has 120 rows on a worker but 121 here: every worker"):
        open_partition(str(folder.path), 121, 2, 5)
    with pytest.raises(DataError, match=r"a worker cannot open what this process can: .*else"):
        open_partition(str(tmp_path / "elsewhere"), 120, 2, 5)


def test_runs_of_partitions_are_of_equal_length():
    assert equal_runs([1, 1, 1, 1], most=4) == [range(i, i + 1) for i in range(4)]
    assert equal_runs([1] * 10, most=3) == [range(4), range(4, 7), range(7, 10)]
    assert equal_runs([100, 1, 1, 1], most=2) == [range(1), range(1, 4)]


def test_dask_knows_how_large_data_are(tmp_path):
    data = made()
    assert sizeof(data) >= data.X.nbytes + data.relevance.nbytes
    mapped = np.memmap(tmp_path / "X", shape=data.X.shape, mode="w+")
    on_disk = RankingData(mapped, data.relevance, data.query_ptr, data.query_ids)
    assert sizeof(on_disk) < data.X.nbytes
