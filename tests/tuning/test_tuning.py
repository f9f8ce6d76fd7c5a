import json
import math
import warnings

import numpy as np
import optuna
import pytest
from sklearn.base import clone

import rankplug
from rankplug.exceptions import (
    ConvergenceWarning,
    DataError,
    ParameterError,
    TuningError,
    UnknownNameError,
)
from rankplug.metrics import evaluate, evaluate_labels
from rankplug.tuning import TuneObserver, tune


def ranking_data(n_queries=40, seed=0, levels=3, n_features=4):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 9, n_queries)
    X = rng.normal(size=(sizes.sum(), n_features))
    w = rng.normal(size=n_features)
    utility = X @ w + rng.normal(size=len(X))
    y = np.digitize(utility, np.quantile(utility, np.linspace(0, 1, levels + 1)[1:-1]))
    return rankplug.RankingData.from_arrays(X, y, np.repeat(np.arange(n_queries), sizes))


def label_data(n_samples=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 3))
    relevance = np.argsort(np.argsort(X @ rng.normal(size=(3, 4)), axis=1), axis=1)
    return rankplug.LabelRankingData.from_arrays(X, relevance)


DATA = ranking_data()


def quick(solver="tree-tron", data=DATA, **options):
    defaults = {"n_trials": 4, "folds": 2, "progress": False}
    return tune(solver, data, **{**defaults, **options})


class Diary(TuneObserver):
    def __init__(self):
        self.events = []

    def study_started(self, info, earlier):
        self.events.append(("started", info.name, [trial.number for trial in earlier]))

    def trial_started(self, number, params):
        self.events.append(("trial", number, dict(params)))

    def step(self, number, step):
        self.events.append(("step", number, step))

    def trial_finished(self, trial):
        self.events.append(("end", trial.number, trial))

    def study_finished(self, result):
        self.events.append(("finished", result))

    def study_failed(self, error):
        self.events.append(("failed", error))

    def of(self, kind):
        return [event for event in self.events if event[0] == kind]


def test_the_best_solver_is_ready_to_fit():
    result = quick(rankplug.make_solver("tree-tron", tol=1e-4), n_trials=6)
    assert list(result.best_params) == ["C"]
    assert result.best_params["C"] == result.best_solver.C
    assert result.best_solver.tol == 1e-4
    assert result.best_value == max(trial.value for trial in result.trials if trial.values)
    assert result.best_value == result.study.best_value
    assert [trial.number for trial in result.trials] == list(range(6))
    assert rankplug.Ranker(result.best_solver).fit(DATA.X, DATA.relevance, qid=DATA.qid)


def test_the_value_is_the_metric_of_the_scores_of_all_held_out_queries():
    from rankplug.tuning.evaluation import make_folds

    result = quick(metric="pairwise_accuracy", folds=3, seed=5, n_trials=1)
    y, scores, qid, fold_values = [], [], [], []
    for fold in make_folds(DATA, 3, 5, "none"):
        model = result.best_solver.solve(fold.train, random_state=5).model
        held_out = fold.held_out
        parts = held_out.relevance, model.predict(held_out.X), held_out.qid
        fold_values.append(evaluate(*parts, "pairwise_accuracy")["pairwise_accuracy"])
        for whole, part in zip((y, scores, qid), parts, strict=True):
            whole.extend(part)
    expected = evaluate(y, scores, qid, "pairwise_accuracy")["pairwise_accuracy"]
    assert result.best_value == pytest.approx(expected, abs=1e-12)
    assert result.best.fold_values == pytest.approx(fold_values, abs=1e-12)


@pytest.mark.parametrize("n_folds", [2, 3, 7])
def test_folds_divide_no_query_and_forget_none(n_folds):
    from rankplug.tuning.evaluation import make_folds

    folds = make_folds(DATA, n_folds, 0, "none")
    held_out = [set(fold.held_out.query_ids) for fold in folds]
    assert sorted(query for part in held_out for query in part) == list(range(DATA.n_queries))
    for fold, part in zip(folds, held_out, strict=True):
        assert set(fold.train.query_ids) == set(range(DATA.n_queries)) - part
        assert fold.train.n_samples + fold.held_out.n_samples == DATA.n_samples
        assert 0 <= len(part) - DATA.n_queries // n_folds <= 1


def test_every_fold_has_its_share_of_queries_with_pairs():
    from rankplug.tuning.evaluation import make_folds

    y = DATA.relevance.copy()
    y[DATA.query_ptr[4] :] = 0.0
    data = rankplug.RankingData.from_arrays(DATA.X, y, DATA.qid)
    for fold in make_folds(data, 4, 0, "none"):
        assert (fold.held_out.pair_counts > 0).sum() == 1
    with pytest.raises(DataError, match="only 4 of 40 have a preference pair"):
        make_folds(data, 5, 0, "none")


def test_label_ranking_is_split_by_instance():
    data = label_data()
    result = quick("sopopo", data, metric="kendall_tau", n_trials=3)
    assert result.best_value > 0.5
    valid = label_data(seed=1)
    result = quick("sopopo", data, valid=valid, metric="kendall_tau", n_trials=2)
    model = result.best_solver.solve(data, random_state=0).model
    expected = evaluate_labels(valid.relevance, model.predict(valid.X), "kendall_tau")
    assert result.best_value == pytest.approx(expected["kendall_tau"])


def test_scaling_is_fitted_on_the_training_part_of_each_fold():
    from rankplug.tuning.evaluation import make_folds

    for fold in make_folds(DATA, 3, 0, "standard"):
        assert np.allclose(fold.train.X.mean(axis=0), 0)
        assert np.allclose(fold.train.X.std(axis=0), 1)
        assert not np.allclose(fold.held_out.X.mean(axis=0), 0, atol=1e-3)


def test_refit_trains_on_everything_and_takes_the_data_as_they_are():
    result = quick(scale="minmax", refit=True)
    scaled = (DATA.X - DATA.X.min(axis=0)) / np.ptp(DATA.X, axis=0)
    whole = rankplug.RankingData.from_arrays(scaled, DATA.relevance, DATA.qid)
    expected = result.best_solver.solve(whole).model.predict(scaled)
    assert np.allclose(result.best_result.model.predict(DATA.X), expected)


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc", "grid"])
def test_the_same_seed_makes_the_same_trials(sampler):
    def trials(seed):
        result = quick(sampler=sampler, seed=seed, n_trials=12, space=space)
        return [(trial.params, trial.values, trial.fold_values) for trial in result.trials]

    space = {"reduction": ["sum", "mean"], "max_iter": {"low": 1, "high": 5}}
    first = trials(1)
    assert first == trials(1)
    assert first != trials(2)


def test_a_minimised_metric_is_minimised():
    result = quick("sopopo", label_data(), metric="top1_error", n_trials=3)
    assert result.best_value == min(trial.value for trial in result.trials if trial.values)


def test_a_grid_ends_when_all_is_tried():
    space = {"C": {"low": 1, "high": 3, "step": 1}, "reduction": ["sum", "mean"]}
    result = quick(sampler="grid", n_trials=None, space=space, pruner=None)
    tried = [(trial.params["C"], trial.params["reduction"]) for trial in result.trials]
    assert sorted(tried) == [(C, name) for C in (1.0, 2.0, 3.0) for name in ("mean", "sum")]


def test_too_large_a_grid_is_refused_before_there_is_a_study(tmp_path):
    with pytest.raises(ParameterError, match=r"8 of n_estimators x .* points"):
        quick("xgboost-pairwise", sampler="grid", storage=tmp_path)
    assert not list(tmp_path.iterdir())


def test_time_runs_out():
    result = quick(n_trials=None, timeout=0.3)
    assert result.trials
    with pytest.raises(TuningError, match="no time"):
        quick(n_trials=None, timeout=1e-9)


def test_trials_worse_than_the_best_are_pruned_by_their_queries():
    space = {"sign": [1, -1]}
    result = quick(Inverted(), ranking_data(120), space=space, n_trials=12, folds=3)
    ends = {1: set(), -1: set()}
    for trial in result.trials:
        ends[trial.params["sign"]].add((trial.state, len(trial.fold_values)))
    assert ends[1] == {("complete", 3)}
    assert ("pruned", 1) in ends[-1]


@pytest.mark.parametrize("pruner", ["median", None])
def test_other_pruners(pruner):
    result = quick(Inverted(), space={"sign": [1, -1]}, n_trials=14, folds=3, pruner=pruner)
    assert bool(result.counts.get("pruned")) == (pruner is not None)
    assert all(trial.params["sign"] == -1 for trial in result.trials if trial.state == "pruned")


class Inverted(rankplug.Solver):
    """tree-tron, or its opposite."""

    name = "inverted"
    tags = rankplug.SolverTags(tasks=("query-document",), problem="", reference="")

    def __init__(self, sign=1, fail=False):
        self.sign = sign
        self.fail = fail

    def _solve(self, data, init, monitor, rng):
        if self.fail:
            raise ValueError("as told")
        result = rankplug.make_solver("tree-tron").solve(data)
        result.model.coef *= self.sign
        return result


def test_a_failing_trial_does_not_end_the_study():
    result = quick(Inverted(), space={"fail": [True, False]}, n_trials=8, sampler="random")
    failed = [trial for trial in result.trials if trial.state == "failed"]
    assert failed
    assert len(failed) < 8
    assert {trial.error for trial in failed} == {"ValueError: as told"}
    assert len(result.trials) == 8


def test_no_complete_trial_is_an_error_that_says_why():
    with pytest.raises(TuningError, match=r"4 failed.*ValueError: as told"):
        quick(Inverted(fail=True), space={"sign": [1, -1]})
    with pytest.raises(TuningError, match="10 failed"):
        quick(Inverted(fail=True), space={"sign": [1, -1]}, n_trials=None, timeout=60)


def test_observers_hear_of_everything():
    diary = Diary()
    result = quick(observer=diary, n_trials=2)
    kinds = [event[0] for event in diary.events]
    assert kinds == ["started", *["trial", "step", "step", "end"] * 2, "finished"]
    assert [step.fold for _, _, step in diary.of("step")] == [0, 1, 0, 1]
    assert diary.of("finished")[0][1] is result
    diary = Diary()
    with pytest.raises(TuningError):
        quick(Inverted(fail=True), space={"sign": [1, -1]}, observer=[diary])
    assert diary.events[-1][0] == "failed"


def test_an_interrupted_trial_counts_as_killed(tmp_path):
    class Impatient(Diary):
        def step(self, number, step):
            if number == 2:
                raise KeyboardInterrupt

    diary = Impatient()
    with pytest.raises(KeyboardInterrupt):
        quick(observer=diary, storage=tmp_path)
    assert isinstance(diary.of("failed")[0][1], KeyboardInterrupt)
    assert [trial.state for _, _, trial in diary.of("end")][-1] == "killed"
    result = quick(storage=tmp_path, resume=True)
    assert result.counts["killed"] == 1
    assert len(result.trials) == 5


def test_several_jobs_keep_the_budget():
    result = quick(n_jobs=4, n_trials=12)
    assert sorted(trial.number for trial in result.trials) == list(range(12))
    assert set(result.counts) <= {"complete", "pruned"}


def test_an_error_in_one_job_ends_all():
    class Broken(TuneObserver):
        def trial_finished(self, trial):
            raise RuntimeError("broken observer")

    with pytest.raises(RuntimeError, match="broken observer"):
        quick(n_jobs=3, n_trials=1000, observer=Broken())


def test_quality_against_cost():
    result = quick("xgboost-pairwise", costs=["size", "seconds"], n_trials=8, space=TREES)
    values = np.array([trial.values for trial in result.trials])
    assert values.shape == (8, 3)
    assert result.best_value == values[:, 0].max()

    def beaten(own):
        no_worse = (values[:, 0] >= own[0]) & np.all(values[:, 1:] <= own[1:], axis=1)
        return np.any(no_worse & np.any(values != own, axis=1))

    efficient = {trial.number for trial in result.trials if not beaten(np.array(trial.values))}
    assert {trial.number for trial in result.pareto} == efficient
    quality = [trial.value for trial in result.pareto]
    assert quality == sorted(quality, reverse=True)
    sizes = {trial.params["n_estimators"]: trial.values[1] for trial in result.trials}
    assert sizes[max(sizes)] > sizes[min(sizes)]


TREES = {
    "n_estimators": {"low": 1, "high": 20},
    "learning_rate": 0.3,
    "max_depth": 2,
    **dict.fromkeys(["min_child_weight", "subsample", "colsample_bytree", "reg_lambda"], 1.0),
    "pair_method": "topk",
}


class TestPath:
    def test_each_step_is_reported_and_the_best_c_is_the_trials(self):
        diary = Diary()
        result = quick(path=5, n_trials=3, observer=diary, space={"reduction": ["sum", "mean"]})
        for trial in result.trials:
            steps = [step for _, number, step in diary.of("step") if number == trial.number]
            assert len(steps) == 10 or trial.state == "pruned"
            Cs = [step.C for step in steps]
            assert Cs == sorted(Cs[:5]) * 2
            best = max(trial.path, key=lambda step: step.value)
            assert trial.params["C"] == best.C
            if trial.values:
                assert trial.value == best.value
            reported = result.study.trials[trial.number].intermediate_values
            assert list(reported.values()) == [step.so_far for step in steps]
            assert trial.n_passes == sum(step.n_passes for step in steps)

    @pytest.mark.filterwarnings("ignore:Target and region quantiles")
    def test_the_study_knows_c_like_any_parameter(self):
        result = quick(path=4, n_trials=5, space={"reduction": ["sum", "mean"]}, pruner=None)
        own = rankplug.make_solver("tree-tron").tuning_space(DATA)["C"]
        for trial in result.study.trials:
            assert trial.state.name == "COMPLETE"
            assert trial.distributions["C"] == own
        importance = optuna.importance.get_param_importances(result.study)
        assert set(importance) == {"C", "reduction"}

    @pytest.mark.parametrize("sampler", ["tpe", "random", "qmc", "grid"])
    def test_other_parameters_are_sampled(self, sampler):
        space = {"reduction": ["sum", "mean", "query-mean"]}
        result = quick(path=3, n_trials=12, space=space, sampler=sampler, pruner=None)
        assert len({trial.params["reduction"] for trial in result.trials}) == 3
        assert len(result.trials) == (3 if sampler == "grid" else 12)

    @pytest.mark.parametrize("solver", ["tree-tron", "cutting-plane"])
    def test_it_finds_what_single_trials_find_with_fewer_passes(self, solver):
        tuned = clone(rankplug.make_solver(solver)).set_params(tol=1e-6)
        one = quick(tuned, path=8)
        space = {"C": [step.C for step in one.best.path]}
        single = quick(tuned, space=space, sampler="grid", n_trials=None, pruner=None)
        assert len(one.trials) == 1, "there is nothing but C"
        assert len(single.trials) == 8
        values = {trial.params["C"]: trial.value for trial in single.trials}
        for step in one.best.path:
            assert step.value == pytest.approx(values[step.C], abs=0.02)
        assert one.n_passes < single.n_passes

    def test_values_of_c(self):
        result = quick(path=[1.0, 0.01, 0.1])
        assert [step.C for step in result.best.path] == [0.01, 0.1, 1.0]
        assert result.study.best_trial.distributions["C"].low == 0.01

    @pytest.mark.parametrize(
        ("solver", "options", "message"),
        [
            ("toppush", {"path": True}, "no warm starts in C"),
            ("tree-tron", {"path": 1}, "number >= 2"),
            ("tree-tron", {"path": [0.1, -1.0]}, "above 0"),
            ("tree-tron", {"path": []}, "above 0"),
            ("tree-tron", {"path": True, "space": {"C": [1, 2]}}, "must have a range of C"),
        ],
    )
    def test_paths_that_cannot_be(self, solver, options, message):
        with pytest.raises(ParameterError, match=message):
            quick(solver, **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_trials": None}, ParameterError, "give n_trials, timeout, or both"),
        ({"n_trials": 0}, ParameterError, "n_trials=0"),
        ({"sampler": "gp"}, ParameterError, "sampler='gp'"),
        ({"pruner": "hyperband"}, ParameterError, "pruner='hyperband'"),
        ({"folds": 1}, ParameterError, "folds=1"),
        ({"folds": 41}, DataError, "only .* have a preference pair"),
        ({"costs": ["money"]}, ParameterError, "costs=.* must be .* seconds, size"),
        ({"metric": "ndgc@10"}, UnknownNameError, "did you mean 'ndcg'"),
        ({"solver": "tree-tronn"}, UnknownNameError, "did you mean 'tree-tron'"),
        ({"solver": 3}, ParameterError, "registered name or a Solver"),
        ({"valid": label_data()}, DataError, "must be of one kind"),
        ({"storage": "study.db"}, ParameterError, "sqlite:///study.db"),
        ({"storage": 3}, ParameterError, "storage=3"),
        ({"storage": "nosuchdb://host/x"}, ParameterError, "cannot be opened"),
        ({"data": label_data(), "solver": "toppush"}, DataError, "not label-ranking"),
        ({"data": DATA.X}, DataError, "needs RankingData or LabelRankingData, not ndarray"),
    ],
)
def test_wrong_arguments(options, error, message):
    with pytest.raises(error, match=message):
        quick(**options)


def test_a_metric_that_the_data_cannot_have_is_refused_before_any_trial(tmp_path):
    y = np.arange(DATA.n_samples) * 1e6
    data = rankplug.RankingData.from_arrays(DATA.X, y, DATA.qid)
    with pytest.raises(DataError, match=r"overflows at relevance .* use linear gain"):
        quick(data=data, storage=tmp_path)
    assert not list(tmp_path.iterdir())
    assert quick(data=data, metric="ndcg@10[gain=linear]", n_trials=1).trials
    valid = rankplug.RankingData.from_arrays(DATA.X, np.zeros(DATA.n_samples), DATA.qid)
    with pytest.raises(DataError, match="undefined for every held-out query"):
        quick(valid=valid)


def test_the_progress_bar_counts_trials(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    quick(progress=True, n_trials=2)
    assert "2/2" in capsys.readouterr().err


def test_records_are_plain_enough_for_reports():
    result = quick(n_trials=2, path=3)
    assert json.dumps([vars(step) for step in result.best.path])
    assert math.isfinite(result.seconds)
    assert result.n_passes > 0


def test_warnings_of_trials_are_counted_and_those_of_the_refit_are_shown():
    options = {"space": {"C": [1.0, 2.0]}, "n_trials": 2, "pruner": None}
    hasty = rankplug.make_solver("tree-tron", max_iter=1, tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = quick(hasty, **options)
    assert [trial.n_unconverged for trial in result.trials] == [2, 2]
    with pytest.warns(ConvergenceWarning):
        quick(hasty, **options, refit=True)
