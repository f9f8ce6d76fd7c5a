"""Maps whose inner products approximate a Gaussian kernel: landmarks, and random waves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem, RBFSampler

from rankplug.data import Block, Matrix, PreferenceData, to_dense
from rankplug.exceptions import ModelFormatError
from rankplug.kernels import default_gamma
from rankplug.maps import FeatureMap, FittedMap, Fitting
from rankplug.parameters import Integer, Positive
from rankplug.system.files import load_numbers

_FILE = "map.npz"
_Components = Annotated[int, Integer(1, 100_000)]


class _GaussianMap(FeatureMap):
    """What the maps of a Gaussian kernel share: its width."""

    gamma: Positive | None = None

    def tuning_space(self, data: PreferenceData | None = None) -> dict[str, Any]:
        """Gamma, a decade to both sides of its default."""
        from optuna.distributions import FloatDistribution

        if data is None:
            return {}
        gamma = default_gamma(data.X)
        return {"gamma": FloatDistribution(0.1 * gamma, 10.0 * gamma, log=True)}


class FittedNystroem(FittedMap):
    """Columns ``k(x, landmarks) whitening'`` with ``k(x, z) = exp(-gamma |x - z|^2)``.

    Parameters
    ----------
    landmarks : float64 ndarray of shape (n_components, n_features)
    whitening : float64 ndarray of shape (n_components, n_components)
        The inverse root of the landmarks' own kernel matrix.
    gamma : float
    """

    kind = "nystroem"

    def __init__(
        self, landmarks: NDArray[np.float64], whitening: NDArray[np.float64], gamma: float
    ) -> None:
        self.landmarks, self.whitening, self.gamma = landmarks, whitening, gamma

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return int(self.landmarks.shape[1])

    @property
    def n_columns(self) -> int:
        """Number of landmarks."""
        return len(self.landmarks)

    def _transform(self, X: Matrix) -> Block:
        from sklearn.metrics.pairwise import rbf_kernel

        kernel = rbf_kernel(to_dense(X).astype(np.float64), self.landmarks, gamma=self.gamma)
        return np.ascontiguousarray(kernel @ self.whitening.T)

    def column_names(self, names: Sequence[str]) -> list[str]:
        """Numbered."""
        return [f"nystroem{k}" for k in range(self.n_columns)]

    def _write(self, folder: Path) -> dict[str, Any]:
        arrays = {"landmarks": self.landmarks, "whitening": self.whitening}
        np.savez(folder / _FILE, allow_pickle=False, **arrays)
        return {"gamma": self.gamma}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> FittedNystroem:
        arrays = load_numbers(folder / _FILE, "landmarks", "whitening")
        landmarks = arrays["landmarks"]
        n = len(landmarks) if landmarks.ndim == 2 else 0
        if n == 0 or arrays["whitening"].shape != (n, n):
            raise ModelFormatError(f"{folder / _FILE}: the arrays do not fit together")
        return cls(gamma=_read_gamma(folder, header), **arrays)


class NystroemMap(_GaussianMap):
    """The Gaussian kernel by landmarks among the training rows (scikit-learn's Nystroem).

    Parameters
    ----------
    n_components : int, default=300
        Number of landmarks, at most that of the rows.
    gamma : float, optional
        By default 1 / (number of features * variance of X).

    References
    ----------
    .. [1] Williams and Seeger, Using the Nystroem method to speed up kernel machines, NIPS 2000.
    """

    name = "nystroem"
    fitted = FittedNystroem
    summary = "a Gaussian kernel, by landmarks among the training rows"

    n_components: _Components = 300

    def _fit(self, fitting: Fitting) -> FittedNystroem:
        data = fitting.data
        gamma = self.gamma or default_gamma(data.X)
        n_components = min(self.n_components, data.n_samples)
        seed = int(fitting.rng.integers(2**31))
        sample = to_dense(data.X).astype(np.float64, copy=False)
        found = Nystroem(gamma=gamma, n_components=n_components, random_state=seed).fit(sample)
        return FittedNystroem(
            np.asarray(found.components_, dtype=np.float64),
            np.asarray(found.normalization_, dtype=np.float64),
            float(gamma),
        )


class FittedFourier(FittedMap):
    """Columns ``sqrt(2 / m) cos(x waves + phases)``.

    Parameters
    ----------
    waves : float64 ndarray of shape (n_features, n_components)
    phases : float64 ndarray of shape (n_components,)
    """

    kind = "fourier"

    def __init__(self, waves: NDArray[np.float64], phases: NDArray[np.float64]) -> None:
        self.waves, self.phases = waves, phases

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return len(self.waves)

    @property
    def n_columns(self) -> int:
        """Number of waves."""
        return len(self.phases)

    def _transform(self, X: Matrix) -> Block:
        angles = np.asarray(X @ self.waves) + self.phases
        return np.sqrt(2.0 / self.n_columns) * np.cos(angles)

    def column_names(self, names: Sequence[str]) -> list[str]:
        """Numbered."""
        return [f"fourier{k}" for k in range(self.n_columns)]

    def _write(self, folder: Path) -> dict[str, Any]:
        np.savez(folder / _FILE, allow_pickle=False, waves=self.waves, phases=self.phases)
        return {}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> FittedFourier:
        arrays = load_numbers(folder / _FILE, "waves", "phases")
        n = len(arrays["phases"]) if arrays["phases"].ndim == 1 else 0
        waves = arrays["waves"]
        if n == 0 or waves.ndim != 2 or waves.shape[1] != n:
            raise ModelFormatError(f"{folder / _FILE}: the arrays do not fit together")
        return cls(**arrays)


class FourierMap(_GaussianMap):
    """The Gaussian kernel by random cosine waves (scikit-learn's RBFSampler).

    Parameters
    ----------
    n_components : int, default=500
    gamma : float, optional
        By default 1 / (number of features * variance of X).

    References
    ----------
    .. [1] Rahimi and Recht, Random features for large-scale kernel machines, NIPS 2007.
    """

    name = "fourier"
    fitted = FittedFourier
    summary = "a Gaussian kernel, by random waves"

    n_components: _Components = 500

    def _fit(self, fitting: Fitting) -> FittedFourier:
        gamma = self.gamma or default_gamma(fitting.data.X)
        seed = int(fitting.rng.integers(2**31))
        sampler = RBFSampler(gamma=gamma, n_components=self.n_components, random_state=seed)
        found = sampler.fit(np.zeros((1, fitting.data.n_features)))
        return FittedFourier(found.random_weights_, found.random_offset_)


def _read_gamma(folder: Path, header: Mapping[str, Any]) -> float:
    gamma = header.get("gamma")
    if not isinstance(gamma, float) or not 0.0 < gamma < np.inf:
        raise ModelFormatError(f"{folder}: gamma is missing or wrong in the header")
    return gamma
