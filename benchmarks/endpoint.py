"""A hand-written endpoint, as somebody would make it for one model: FastAPI, uvicorn, one worker.

``python -m benchmarks.endpoint MODEL PORT`` serves the weights of a linear model (``.npy``) or a
booster of XGBoost (``.json``). It takes ``{"inputs": [[...], ...]}`` and looks at the shape alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException
from numpy.typing import NDArray
from pydantic import BaseModel

Scorer = Callable[[NDArray[np.float64]], NDArray[np.floating[Any]]]


class Request(BaseModel):
    """Rows of features."""

    inputs: list[list[float]]


def application(score: Scorer, n_features: int) -> FastAPI:
    """The application around a scoring function."""
    app = FastAPI()

    @app.get("/ping")
    def ping() -> None:
        """Say that the model is loaded."""

    @app.post("/invocations")
    async def invocations(request: Request) -> dict[str, list[float]]:
        rows = request.inputs
        if not rows or any(len(row) != n_features for row in rows):
            raise HTTPException(400, f"inputs must be rows of {n_features} numbers")
        return {"predictions": score(np.array(rows)).tolist()}

    return app


def load(path: Path) -> tuple[Scorer, int]:
    """The scoring function of a saved model, and the number of its features."""
    if path.suffix == ".npy":
        coef = np.load(path)
        return (lambda rows: rows @ coef), len(coef)
    import xgboost

    booster = xgboost.Booster({"nthread": 1}, model_file=path)
    return booster.inplace_predict, booster.num_features()


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(application(*load(Path(sys.argv[1]))), port=int(sys.argv[2]), log_level="warning")
