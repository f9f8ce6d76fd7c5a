"""Synthetic data sets of any size, shaped like what large rankers are trained on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import RankingData
from rankplug.data.arrays import index_type
from rankplug.datasets.catalogue import DatasetParts, data_set
from rankplug.exceptions import ParameterError
from rankplug.parameters import Choice, Integer

_LEVEL_SHARES = (0.52, 0.32, 0.13, 0.023, 0.007)  # of relevance 0 to 4, about those of MSLR-WEB
_N_FACTORS = 24  # fewer than features, so that these are correlated
_ROWS_AT_ONCE = 2_000  # so that the arrays stay in the processor's cache
_DOCUMENTS_AT_ONCE = 20_000  # so that words before they are counted take little memory
_FREQUENT = 3.0  # word rank r, from 0, is drawn about in proportion to 1 / (r + _FREQUENT)


@data_set(
    "web-search",
    "query-document",
    n_queries=Integer(1, 10**6),
    docs_per_query=Integer(2, 10**5),
    n_features=Integer(4, 10**5),
    dtype=Choice(("float32", "float64")),
)
def web_search(
    *,
    n_queries: int = 400,
    docs_per_query: int = 100,
    n_features: int = 136,
    dtype: str = "float64",
    seed: int = 0,
) -> DatasetParts[RankingData]:
    r"""Synthetic web search like MSLR-WEB: dense features between 0 and 1, five levels.

    Latent features of document i of query q are :math:`z_{qi} = F (f_q + f_{qi}) + s \circ
    e_{qi}`: shared factors make them correlated, :math:`f_q` shifts a whole query, and scales
    `s` differ by two orders of magnitude. The first half are seen as :math:`\exp(\min(z, 4) - 4)`,
    which has a heavy tail, the others as `z` clipped to [-1, 4] and mapped to [0, 1]. Relevance
    is a linear function of four in ten latent features, products and thresholds of a few, and
    noise, cut at the quantiles that leave 52, 32, 13, 2.3 and 0.7 % of the training rows at
    levels 0 to 4.

    Parameters
    ----------
    n_queries : int
        Of the training part; validation and test have an eighth as many.
    docs_per_query : int
        On average: sizes vary from query to query, at least 1.
    n_features : int
    dtype : "float32" or "float64"
    seed : int
    """
    rng = np.random.default_rng(seed)
    world = _WebSearch(n_features, rng)
    n_others = -(-n_queries // 8)
    samples = []
    for n in (n_queries, n_others, n_others):
        query = np.repeat(np.arange(n), _query_sizes(n, docs_per_query, rng))
        samples.append((query, *world.sample(query, np.dtype(dtype), rng)))
    cuts = np.quantile(samples[0][2], np.cumsum(_LEVEL_SHARES[:-1]))
    first_ids = np.cumsum((0, n_queries, n_others)).tolist()
    return DatasetParts(
        *(
            RankingData.from_arrays(X, np.searchsorted(cuts, utility), query + first_id)
            for first_id, (query, X, utility) in zip(first_ids, samples, strict=True)
        )
    )


@data_set(
    "text-scores",
    "query-document",
    n_documents=Integer(8, 10**8),
    n_features=Integer(10, 10**8),
    nonzeros_per_row=Integer(1, 10**5),
)
def text_scores(
    *,
    n_documents: int = 20_000,
    n_features: int = 50_000,
    nonzeros_per_row: int = 75,
    seed: int = 0,
) -> DatasetParts[RankingData]:
    """Synthetic scores of texts: sparse tf-idf rows, one query, every relevance distinct.

    Words of a document are drawn with frequencies that fall as 1 / (rank + 3), and weighted as
    ``TfidfTransformer(sublinear_tf=True)`` fitted on the training part does. The utility of a
    document is a fixed random linear function of its row plus noise of half its standard
    deviation; relevance is the share of the part's documents with a lower utility.

    Parameters
    ----------
    n_documents : int
        Of the training part; validation and test have an eighth as many.
    n_features : int
        Size of the vocabulary.
    nonzeros_per_row : int
        Distinct words of a document, on average; at most half the vocabulary.
    seed : int
    """
    from sklearn.feature_extraction.text import TfidfTransformer

    if 2 * nonzeros_per_row > n_features:
        raise ParameterError(
            f"text-scores: nonzeros_per_row={nonzeros_per_row} must be at most half of "
            f"n_features={n_features}"
        )
    rng = np.random.default_rng(seed)
    columns = rng.permutation(n_features)
    coef = rng.normal(size=n_features)
    n_words = _words_to_draw(nonzeros_per_row, n_features)
    sizes = (n_documents, n_documents // 8, n_documents // 8)
    counts = [_word_counts(n, n_words, columns, rng) for n in sizes]
    weighting = TfidfTransformer(sublinear_tf=True).fit(counts[0])
    rows = [sparse.csr_array(weighting.transform(one)) for one in counts]
    noise = 0.5 * (rows[0] @ coef).std()
    utilities = (X @ coef + noise * rng.normal(size=X.shape[0]) for X in rows)
    return DatasetParts(*map(_rank_by_utility, rows, utilities))


class _WebSearch:
    """The model that all queries share: latent features, features as seen, and relevance."""

    def __init__(self, n_features: int, rng: np.random.Generator) -> None:
        self.factors = rng.normal(scale=0.35, size=(_N_FACTORS, n_features))
        self.own_scale = 0.3 * np.exp(0.8 * rng.normal(size=n_features))
        # The factors of a query and those of a document add up: twice the variance.
        self.spread = np.sqrt(2 * (self.factors**2).sum(axis=0) + self.own_scale**2)
        coef = rng.normal(size=n_features) * (rng.random(n_features) < 0.4) / self.spread
        variance = 2 * ((self.factors @ coef) ** 2).sum() + ((self.own_scale * coef) ** 2).sum()
        self.coef = coef * (0.7 / np.sqrt(max(variance, np.finfo(float).tiny)))

    def sample(
        self, query: NDArray[np.int64], dtype: np.dtype[np.floating], rng: np.random.Generator
    ) -> tuple[NDArray[np.floating], NDArray[np.float64]]:
        """Features and utility of a document for each entry of `query`."""
        from threadpoolctl import threadpool_limits

        of_query = rng.normal(size=(int(query[-1]) + 1, _N_FACTORS))
        X = np.empty((len(query), len(self.coef)), dtype=dtype)
        utility = np.empty(len(query))
        with threadpool_limits(1, "blas"):  # threads only wait for each other on such small blocks
            for start in range(0, len(query), _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                shared = of_query[query[rows]]
                shared += rng.standard_normal(shared.shape)
                latent = shared @ self.factors
                latent += self.own_scale * rng.standard_normal(latent.shape)
                utility[rows] = self._utility(latent) + rng.standard_normal(len(latent))
                X[rows] = self._observe(latent)
        return X, utility

    def _utility(self, latent: NDArray[np.float64]) -> NDArray[np.float64]:
        chosen = np.arange(4) * len(self.coef) // 4
        a, b, c, d = (latent[:, chosen] / self.spread[chosen]).T
        utility: NDArray[np.float64] = (
            latent @ self.coef + 0.5 * np.tanh(a * b) + 0.4 * np.where(c > 1, d, 0.0)
        )
        return utility

    def _observe(self, latent: NDArray[np.float64]) -> NDArray[np.float64]:
        half = latent.shape[1] // 2
        heavy = np.exp(np.minimum(latent[:, :half], 4.0) - 4.0)
        return np.hstack((heavy, (np.clip(latent[:, half:], -1.0, 4.0) + 1.0) / 5.0))


def _query_sizes(n_queries: int, mean: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At least one document a query, ``n_queries * mean`` in all, with a long tail."""
    shares = rng.gamma(2.0, size=n_queries)
    return 1 + rng.multinomial(n_queries * (mean - 1), shares / shares.sum())


def _words_to_draw(n_distinct: int, n_words: int) -> float:
    """How many words to draw so that so many distinct ones are expected."""
    from scipy.optimize import brentq

    ranks = np.arange(n_words)
    probability = np.log1p(1 / (ranks + _FREQUENT)) / np.log1p(n_words / _FREQUENT)
    log_other = np.log1p(-probability)

    def missing(log_draws: float) -> float:
        return float(-np.expm1(np.exp(log_draws) * log_other).sum() - n_distinct)

    most = np.log(n_distinct) + 40.0
    return float(np.exp(brentq(missing, 0.0, most))) if n_distinct > 1 else 1.0


def _word_counts(
    n_documents: int, n_words: float, columns: NDArray[np.int64], rng: np.random.Generator
) -> sparse.csr_array:
    """How often each word occurs in each document; lengths vary by a third or so."""
    blocks = []
    ratio = np.log1p(len(columns) / _FREQUENT)
    for start in range(0, n_documents, _DOCUMENTS_AT_ONCE):
        n = min(_DOCUMENTS_AT_ONCE, n_documents - start)
        lengths = np.rint(rng.gamma(9.0, n_words / 9.0, size=n)).astype(np.int64).clip(min=1)
        row_ptr = np.concatenate(([0], np.cumsum(lengths)))
        # log(rank + _FREQUENT) is uniform
        ranks = (_FREQUENT * np.expm1(ratio * rng.random(row_ptr[-1]))).astype(np.int64)
        words = columns[np.minimum(ranks, len(columns) - 1)]
        block = sparse.csr_array((np.ones(len(words)), words, row_ptr), shape=(n, len(columns)))
        block.sum_duplicates()
        blocks.append(block)
    counts = sparse.vstack(blocks, format="csr")
    index = index_type(counts.nnz, *counts.shape)
    counts.indices, counts.indptr = counts.indices.astype(index), counts.indptr.astype(index)
    return counts


def _rank_by_utility(X: sparse.csr_array, utility: NDArray[np.float64]) -> RankingData:
    """One query whose relevance is the share of rows with a lower utility: all distinct."""
    relevance = np.empty(len(utility))
    relevance[np.argsort(utility)] = np.arange(len(utility)) / len(utility)
    return RankingData.from_arrays(X, relevance)
