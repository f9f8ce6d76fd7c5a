"""What operations declare to do to the state of a shard."""

import inspect

import numpy as np
import pytest

from rankplug.data import RankingData
from rankplug.shards import Shard, ShardState, keeps_state, open_shards, state_after

OPERATIONS = {
    name: method
    for name, method in vars(Shard).items()
    if inspect.isfunction(method) and not name.startswith("_")
}


def undeclared(shard):
    names = [name for name in dir(shard) if not name.startswith("_")]
    methods = {name: getattr(shard, name) for name in names if callable(getattr(shard, name))}
    return [name for name, method in methods.items() if not hasattr(method, "state_rule")]


def test_every_operation_of_a_shard_declares_what_it_does_to_the_state():
    assert len(OPERATIONS) > 15
    assert undeclared(Shard) == []


def test_a_new_operation_without_a_declaration_is_found_and_refused():
    class Extended(Shard):
        def forget(self):
            self.scores[:] = 0.0

        @keeps_state
        def largest_score(self):
            return self.scores.max()

    assert undeclared(Extended) == ["forget"]
    with pytest.raises(TypeError, match=r"forget.*does not declare.*changes_state or keeps_state"):
        state_after(Extended.forget, ShardState(), ())
    state = ShardState(np.ones(2))
    assert state_after(Extended.largest_score, state, ()) is state


@pytest.mark.parametrize("name", OPERATIONS)
def test_rules_take_the_arguments_of_their_operation(name):
    parameters = list(inspect.signature(OPERATIONS[name]).parameters.values())[1:]
    arguments = [0.5 if one.name in ("step", "fraction") else np.ones(2) for one in parameters]
    if name == "restore":
        arguments = [ShardState()]
    state = ShardState(np.ones(2), "loss", np.ones(2), np.ones(2), (1.0, "loss"))
    assert isinstance(state_after(OPERATIONS[name], state, tuple(arguments)), ShardState)


def test_a_shard_that_has_not_begun_is_restored_to_nothing():
    data = RankingData.from_arrays(np.arange(4.0)[:, None], [0, 1, 0, 1], [0, 0, 1, 1])
    with open_shards(data, np.ones(2), n_threads=1) as shards:
        (shard,) = shards.shards
        shard.restore(ShardState())
        assert not shard.scores.any()
