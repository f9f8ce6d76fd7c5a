import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]

def soft_projection(mu: ArrayLike, nu: ArrayLike, C: float) -> tuple[Vector, Vector]: ...
