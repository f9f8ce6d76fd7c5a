import inspect

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, Ridge

from rankplug import datasets, metrics
from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import ParameterError, UnknownNameError

SMALL = {
    "digits-retrieval": {"n_queries": 6, "docs_per_query": 30},
    "text-scores": {"n_documents": 300, "n_features": 1000, "nonzeros_per_row": 20},
    "web-search": {"n_queries": 20, "docs_per_query": 15, "n_features": 10},
}
NAMES = [
    "breast-cancer",
    "diabetes",
    "digits",
    "digits-retrieval",
    "text-scores",
    "web-search",
    "wine",
]


def load(name, **params):
    return datasets.load(name, **{**SMALL.get(name, {}), **params})


def parts(splits):
    return splits.train, splits.valid, splits.test


def dense(data):
    return data.X.toarray() if sparse.issparse(data.X) else data.X


def same(a, b):
    return np.array_equal(dense(a), dense(b)) and np.array_equal(a.relevance, b.relevance)


def accuracy(data, scores):
    return metrics.evaluate(data.relevance, scores, data.qid, ["pairwise_accuracy"])[
        "pairwise_accuracy"
    ]


# --- the catalogue ---


def test_all_sets_are_listed_and_described():
    assert datasets.names() == NAMES
    for info in datasets.list_datasets():
        assert info.task in ("query-document", "label-ranking")
        assert info.description.endswith(".")
        assert info.parameters == datasets.parameters(info.name)
        assert "seed" in info.parameters


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_documented(name):
    doc = inspect.getdoc(getattr(datasets, name.replace("-", "_")))
    described = [key for key in datasets.parameters(name) if key != "seed"]
    assert all(f"{key} :" in doc for key in described)


def test_unknown_names_get_a_suggestion():
    with pytest.raises(UnknownNameError, match="unknown data set 'digit'; did you mean 'digits'"):
        datasets.load("digit")
    with pytest.raises(UnknownNameError, match="did you mean 'wine'"):
        datasets.parameters("wines")
    with pytest.raises(
        ParameterError, match=r"no parameter 'n_query'; did you mean 'n_queries'.*'x'"
    ):
        datasets.load("web-search", n_query=3, x=1)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("web-search", {"n_queries": 0, "dtype": "int8"}, "n_queries=0 .*; dtype='int8'"),
        ("web-search", {"docs_per_query": 1.5}, "docs_per_query=1.5"),
        ("wine", {"seed": -1}, "seed=-1"),
        ("text-scores", {"n_features": 100}, "nonzeros_per_row=75 must be at most half"),
        ("digits-retrieval", {"docs_per_query": 5000}, "docs_per_query=5000"),
    ],
)
def test_values_that_are_not_allowed(name, params, message):
    with pytest.raises(ParameterError, match=message):
        datasets.load(name, **params)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides(name):
    first, again, other = load(name), load(name, seed=0), load(name, seed=1)
    for a, b, c in zip(parts(first), parts(again), parts(other), strict=True):
        assert same(a, b)
        assert not same(a, c)


@pytest.mark.parametrize("name", NAMES)
def test_parts_are_ready_to_use(name):
    splits = load(name)
    for data in parts(splits):
        data.require_pairs()
        assert data.n_features == splits.train.n_features
        assert data.feature_names == splits.train.feature_names
        kind = RankingData if datasets.list_datasets()[NAMES.index(name)].task[0] == "q" else None
        assert isinstance(data, kind or LabelRankingData)


# --- real sets ---


@pytest.mark.parametrize(
    ("name", "loader"),
    [
        ("diabetes", load_diabetes),
        ("breast-cancer", load_breast_cancer),
        ("wine", load_wine),
        ("digits", load_digits),
    ],
)
def test_parts_are_a_partition_of_the_rows(name, loader):
    source = loader().data
    splits = load(name)
    X = np.concatenate([data.X for data in parts(splits)])
    # standardising a column keeps its order, and so the row of each of its values
    assert len(X) == len(source)
    for j in range(X.shape[1]):
        values, counts = np.unique(source[:, j], return_counts=True)
        found, found_counts = np.unique(X[:, j].round(9), return_counts=True)
        np.testing.assert_array_equal(counts, found_counts)
        if len(values) > 1:
            np.testing.assert_allclose(np.corrcoef(values, found)[0, 1], 1.0)
    shares = [data.n_samples / len(source) for data in parts(splits)]
    np.testing.assert_allclose(shares, [0.6, 0.2, 0.2], atol=0.01)


@pytest.mark.parametrize("name", ["diabetes", "breast-cancer", "wine"])
def test_training_features_are_standardised(name):
    X = load(name).train.X
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(X.std(axis=0), 1.0)


@pytest.mark.parametrize("name", ["digits", "digits-retrieval"])
def test_pixels_lie_between_0_and_1(name):
    X = load(name).train.X
    assert X.min() == 0.0
    assert X.max() == 1.0


def test_diabetes_has_one_query_of_real_values():
    splits = load("diabetes")
    assert [data.n_queries for data in parts(splits)] == [1, 1, 1]
    relevance = np.concatenate([data.relevance for data in parts(splits)])
    np.testing.assert_array_equal(np.sort(relevance), np.sort(load_diabetes().target))


def test_malignant_tumours_are_the_relevant_ones():
    splits = load("breast-cancer")
    assert sum(data.relevance.sum() for data in parts(splits)) == 212
    shares = [data.relevance.mean() for data in parts(splits)]
    np.testing.assert_allclose(shares, 212 / 569, atol=0.01)


@pytest.mark.parametrize(("name", "n_classes"), [("digits", 10), ("wine", 3)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_part_has_every_class(name, n_classes, seed):
    for data in parts(load(name, seed=seed)):
        np.testing.assert_array_equal(data.labels, np.arange(n_classes))
        np.testing.assert_array_equal(data.relevance.sum(axis=1), 1.0)


def test_retrieval_is_about_other_images_of_the_same_part():
    splits = load("digits-retrieval", n_queries=30, docs_per_query=100)
    ids = []
    for data in parts(splits):
        assert np.all(np.diff(data.query_ptr) == 100)
        assert np.all(data.X.sum(axis=1) > 0)  # never the query itself
        relevant = np.add.reduceat(data.relevance, data.query_ptr[:-1])
        assert relevant.min() >= 1
        assert 7 < relevant.mean() < 13
        ids.append(set(data.query_ids.tolist()))
    assert [len(one) for one in ids] == [30, 10, 10]
    assert len(set.union(*ids)) == 50


def test_retrieval_parts_share_no_image(monkeypatch):
    # Images of one random number each: a difference tells which two images were compared.
    n = 1797
    value = np.random.default_rng(0).random(n)
    images = np.repeat(value[:, np.newaxis], 64, axis=1)
    monkeypatch.setattr(
        "sklearn.datasets.load_digits", lambda return_X_y: (images, np.arange(n) % 10)
    )
    first, second = np.triu_indices(n, k=1)
    differences = np.abs(value[first] - value[second]) / 16
    order = np.argsort(differences)
    used = []
    for data in parts(load("digits-retrieval", n_queries=60, docs_per_query=100)):
        pairs = order[np.searchsorted(differences, data.X[:, 0], sorter=order)]
        np.testing.assert_array_equal(differences[pairs], data.X[:, 0])
        same_digit = first[pairs] % 10 == second[pairs] % 10
        np.testing.assert_array_equal(data.relevance, same_digit)
        used.append({*first[pairs].tolist(), *second[pairs].tolist()})
    assert not used[0] & used[1]
    assert not used[0] & used[2]
    assert not used[1] & used[2]


def test_a_linear_model_learns_to_retrieve():
    splits = load("digits-retrieval", n_queries=60, docs_per_query=60)
    model = LogisticRegression(max_iter=300).fit(splits.train.X, splits.train.relevance)
    test = splits.test
    ndcg = [
        metrics.evaluate(test.relevance, scores, test.qid, ["ndcg@10"])["ndcg@10"]
        for scores in (model.decision_function(test.X), np.zeros(test.n_samples))
    ]
    assert ndcg[0] > 0.5
    assert ndcg[1] < 0.25


# --- synthetic sets ---


def test_web_search_has_the_sizes_asked_for():
    splits = load("web-search", n_queries=21, docs_per_query=30, n_features=7)
    assert [data.n_queries for data in parts(splits)] == [21, 3, 3]
    assert [data.X.shape for data in parts(splits)] == [(630, 7), (90, 7), (90, 7)]
    assert len(set.union(*(set(data.query_ids.tolist()) for data in parts(splits)))) == 27
    sizes = np.diff(splits.train.query_ptr)
    assert sizes.min() >= 1
    assert len(set(sizes.tolist())) > 5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_web_search_features_are_floats_between_0_and_1(dtype):
    for data in parts(load("web-search", dtype=dtype)):
        assert data.X.dtype == dtype
        assert data.X.flags.c_contiguous
        assert data.X.min() >= 0.0
        assert data.X.max() <= 1.0


def test_web_search_levels_are_skewed_like_mslr():
    splits = load("web-search", n_queries=200, docs_per_query=50)
    shares = np.bincount(splits.train.relevance.astype(int)) / splits.train.n_samples
    np.testing.assert_allclose(shares, [0.52, 0.32, 0.13, 0.023, 0.007], atol=1e-3)
    test = np.bincount(splits.test.relevance.astype(int), minlength=5) / splits.test.n_samples
    np.testing.assert_allclose(test, shares, atol=0.1)


def test_web_search_has_heavy_tails_and_query_shifts():
    train = load("web-search", n_queries=200, docs_per_query=50).train
    centred = train.X - train.X.mean(axis=0)
    kurtosis = (centred**4).mean(axis=0) / (centred**2).mean(axis=0) ** 2
    assert kurtosis[:5].min() > 5.0  # a normal distribution has 3
    sizes = np.diff(train.query_ptr)
    means = np.add.reduceat(centred, train.query_ptr[:-1]) / sizes[:, np.newaxis]
    # without shifts, the means of 50 rows would have a fiftieth of the variance
    assert np.median(means.var(axis=0) / train.X.var(axis=0)) > 0.1


def test_web_search_can_be_learnt_in_part():
    splits = load("web-search", n_queries=200, docs_per_query=50, n_features=20)
    model = Ridge(1e-3).fit(splits.train.X, splits.train.relevance)
    assert 0.6 < accuracy(splits.test, model.predict(splits.test.X)) < 0.9


def test_text_scores_are_sparse_tf_idf_rows():
    splits = load("text-scores", n_documents=2000, n_features=5000, nonzeros_per_row=40)
    assert [data.X.shape for data in parts(splits)] == [(2000, 5000), (250, 5000), (250, 5000)]
    for data in parts(splits):
        assert isinstance(data.X, sparse.csr_array)
        assert data.X.has_canonical_format
        assert data.X.indices.dtype == np.int32
        assert np.all(data.X.data > 0)
        np.testing.assert_allclose((data.X**2).sum(axis=1), 1.0)
        np.testing.assert_allclose(data.X.nnz / data.n_samples, 40, rtol=0.05)
    frequency = np.sort(np.bincount(splits.train.X.indices, minlength=5000))[::-1]
    assert frequency[0] > 20 * frequency[500]


@pytest.mark.parametrize("nonzeros", [1, 2, 50, 500])
def test_text_scores_have_the_nonzeros_asked_for(nonzeros):
    X = load("text-scores", n_documents=400, n_features=1000, nonzeros_per_row=nonzeros).train.X
    np.testing.assert_allclose(X.nnz / 400, nonzeros, rtol=0.1)


def test_text_scores_are_distinct_utilities_of_one_query():
    for data in parts(load("text-scores")):
        n = data.n_samples
        assert data.n_queries == 1
        assert len(np.unique(data.relevance)) == n
        assert data.pair_counts.tolist() == [n * (n - 1) // 2]


def test_text_scores_can_be_learnt():
    splits = load("text-scores", n_documents=4000, n_features=200, nonzeros_per_row=10)
    model = Ridge(1.0).fit(splits.train.X, splits.train.relevance)
    assert accuracy(splits.test, model.predict(splits.test.X)) > 0.75
