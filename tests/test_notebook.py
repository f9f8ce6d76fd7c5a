"""The notebook of the documentation runs in a kernel, and shows what it says."""

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
nbformat = pytest.importorskip("nbformat")

FILE = Path(__file__).parents[1] / "docs" / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The cells of code with their outputs, after a run in an empty folder."""
    notebook = nbformat.read(FILE, as_version=4)
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        for variable in ("MPLBACKEND", "MLFLOW_TRACKING_URI"):
            patch.delenv(variable, raising=False)
        client = nbclient.NotebookClient(
            notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        client.execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cells, end):
    """The last output of the cell that ends so, by the type of its contents."""
    (cell,) = [cell for cell in cells if cell.source.endswith(end)]
    return cell.outputs[-1].data


def test_it_is_kept_without_outputs():
    for cell in nbformat.read(FILE, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("\ndata", "RankingData"),
        ("list_solvers()", "tree-tron"),
        ("list_maps()", "splines"),
        ("ranker.result_", "converged"),
        ("\nstudy", "best ndcg@10"),
        ("\nreport", "additive"),
    ],
)
def test_values_are_tables(cells, end, words):
    found = shown(cells, end)
    assert "<table>" in found["text/html"]
    assert words in found["text/html"]


def test_figures_are_pictures(cells):
    pictures = [
        output for cell in cells for output in cell.outputs if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 3


def test_bars_are_shown(cells):
    (cell,) = [cell for cell in cells if cell.source.endswith("\nstudy")]
    texts = [str(output.get("text", output.get("data"))) for output in cell.outputs]
    assert "tree-tron" in "".join(texts[:-1])
