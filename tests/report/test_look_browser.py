"""Rankings in a real browser: chosen, swapped, explained and turned, without network or error."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

import rankplug
from rankplug.cli import main
from rankplug.data import RankingData
from rankplug.metrics import evaluate
from rankplug.models import load_model

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
EVIL = "<img src=x onerror=alert(1)>"
FEATURES = ["price", EVIL, "match"]
N_QUERIES, N_ROWS = 8, 6
MINUS = "\N{MINUS SIGN}"


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("needs a browser: apt-get install chromium")
    options = ["--no-sandbox", "--disable-dev-shm-usage"]
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=options)
        except sync_api.Error as error:
            pytest.skip(f"{found} does not start: {error}")
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with a linear, an additive and a boosted model, and a table for them."""
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_QUERIES * N_ROWS, 3)).round(3)
    X[::7, 0] = np.nan
    y = np.digitize(X[:, 2] - 0.5 * X[:, 1] + 0.5 * rng.normal(size=len(X)), [-0.5, 0.5])
    qid = np.repeat([f"q{q}" for q in range(N_QUERIES)], N_ROWS)
    frame = pd.DataFrame(X, columns=FEATURES).assign(
        title=[f"{EVIL} {row}" for row in range(len(X))], label=y, qid=qid
    )
    frame.to_csv(folder / "shop.csv", index=False)
    data = RankingData.from_arrays(frame[FEATURES], y, qid)
    filled = RankingData.from_arrays(frame[FEATURES].fillna(0.0), y, qid)
    rankplug.make_solver("tree-tron").solve(filled).model.save(folder / "linear")
    rankplug.make_solver("mapped", map="splines").solve(data).model.save(folder / "splines")
    rankplug.make_solver("xgboost-pairwise", n_estimators=5).solve(data).model.save(
        folder / "trees"
    )
    return folder


class Watched:
    """A page and all that it says or asks for."""

    def __init__(self, browser, file, **options):
        self.page = browser.new_page(**options)
        self.trouble = []
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.on("request", lambda request: self.trouble.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector(".look-reasons")
        assert self.trouble.pop(0) == file.as_uri()

    def close(self):
        self.page.close()
        assert self.trouble == []

    def text(self, selector):
        return self.page.inner_text(selector)

    def numbers(self, selector):
        texts = self.page.locator(selector).all_inner_texts()
        return [float(text.replace(MINUS, "-")) for text in texts]


@pytest.fixture
def compared(browser, shop):
    """The page of two models."""
    file = shop / "two.html"
    if not file.exists():
        arguments = ["show", str(shop / "splines"), str(shop / "shop.csv"), "-o", str(file)]
        arguments += ["--against", str(shop / "trees"), "--display", "title", "--display", "price"]
        assert main(arguments) == 0
    watched = Watched(browser, file)
    yield watched
    watched.close()


def test_a_query_is_chosen_by_mouse_keys_and_search(compared):
    page = compared.page
    page.locator("[role=option]", has_text="q3").click()
    assert compared.text(".look-main h3") == "Query q3"
    page.keyboard.press("End")
    last = page.locator("[role=option]").last
    assert last.get_attribute("aria-selected") == "true"
    assert compared.text(".look-main h3") == f"Query {last.inner_text().split()[0]}"
    page.select_option(".look-queries select", "gain")
    margins = [
        float(right) - float(left)
        for text in page.locator("[role=option]").all_inner_texts()
        for _, left, right in [text.split()]
    ]
    assert margins == sorted(margins, reverse=True)
    page.fill("input[type=search]", "q5")
    assert page.locator("[role=option]").count() == 1
    page.fill("input[type=search]", "onerror=alert(1)> 47")  # a title
    assert page.locator("[role=option]").all_inner_texts()[0].startswith("q7")


def test_entrants_are_swapped(compared):
    page = compared.page
    total, bars = compared.text(".look-total"), compared.numbers(".look-sum")
    assert compared.text(".look-side-left").split("\n")[0] == "1"
    page.click(".look-swap")
    assert page.evaluate("document.activeElement.className") == "look-swap"
    heads = page.locator(".look-lists h4").all_inner_texts()
    assert heads == ["trees", "splines"]
    assert compared.text(".look-total") != total
    assert {abs(bar) for bar in compared.numbers(".look-sum")} == {abs(bar) for bar in bars}
    better, worse = re.findall(r"(?:better on|worse on) (\d+)", total)
    assert f"better on {worse} queries, worse on {better}" in compared.text(".look-total")


def test_two_documents_are_selected_and_the_sum_is_the_difference_of_their_scores(compared, shop):
    page = compared.page
    page.locator("[role=option]", has_text="q2").click()
    rows = range(2 * N_ROWS, 3 * N_ROWS)
    for _ in range(2):
        page.locator(".look-side-left [aria-pressed=true]").first.click()
    page.click('.look-side-left [data-document="0"]')
    assert "Choose another document" in compared.text(".look-why")
    page.click('.look-side-right [data-document="4"]')
    assert page.locator('[data-document="4"][aria-pressed=true]').count() == 2
    frame = pd.read_csv(shop / "shop.csv").iloc[list(rows)]
    for name, reason in zip(
        ("splines", "trees"), page.locator(".look-reasons > div").all(), strict=True
    ):
        scores = load_model(shop / name).predict(frame[FEATURES])
        cells = [row.locator("td").all_inner_texts() for row in reason.locator("tr").all()[1:]]
        added = [float(row[-1].replace(MINUS, "-")) for row in cells]
        assert added[-1] == pytest.approx(scores[0] - scores[4], abs=5e-3 * np.ptp(scores))
        assert sum(added[:-1]) == pytest.approx(added[-1], abs=0.02 * np.ptp(scores))
        order = "A above B" if scores[0] > scores[4] else "B above A"
        assert order in reason.locator("h4").inner_text()
    page.locator('.look-side-left [data-document="0"]').focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.closest('ol').className").endswith("right")


def test_hostile_names_are_text(compared):
    assert EVIL in compared.text(".look-side-left")
    assert compared.page.locator("img").count() == 0
    assert compared.page.evaluate("document.querySelectorAll('script:not([type])').length") == 1
    # The policy of the page lets nothing else run.
    with compared.page.expect_console_message() as said:
        ran = compared.page.evaluate(
            "() => { const one = document.createElement('script');"
            " one.textContent = 'window.ran = 1';"
            " document.body.append(one); return window.ran || 0; }"
        )
    assert ran == 0
    assert "Content Security Policy" in said.value.text
    compared.trouble.remove(said.value.text)


def drag(page, handle, down):
    """Move a point with the mouse by so many pixels."""
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = handle.get_attribute("aria-valuenow")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + down)
    page.mouse.up()
    assert float(handle.get_attribute("aria-valuenow")) > float(before)


@pytest.mark.parametrize("name", ["linear", "splines"])
def test_a_weight_is_turned_and_the_model_written_down_predicts_so(
    browser, shop, name, tmp_path, capsys
):
    data, file = shop / "shop.csv", tmp_path / "one.html"
    frame = pd.read_csv(data)
    if name == "linear":
        data, frame = tmp_path / "filled.csv", frame.fillna(0.0)
        frame.to_csv(data, index=False)
    assert main(["show", str(shop / name), str(data), "-o", str(file)]) == 0
    one = Watched(browser, file)
    before = one.text(".look-of-right")
    slider = one.page.locator("fieldset", has_text="match").locator("input[type=range]")
    slider.focus()
    one.page.keyboard.press("Home")
    handle = one.page.locator("fieldset", has_text="price").locator("circle").nth(2)
    handle.focus()
    for _ in range(5):
        one.page.keyboard.press("ArrowUp")
    assert one.text(".look-total .look-of-right") != before
    drag(one.page, one.page.locator("fieldset", has_text="price").locator("circle").nth(4), -12)
    one.page.click("text=Write the turned model down")
    (tmp_path / "turned.json").write_text(one.page.input_value("textarea"))
    shown = float(one.text(".look-total .look-of-right").split()[-1])
    orders = {}
    for option in one.page.locator("[role=option]").all():
        option.click()
        buttons = one.page.locator(".look-side-right [data-document]").all()
        orders[one.text(".look-main h3").split()[1]] = [
            int(button.get_attribute("data-document")) for button in buttons
        ]
    one.close()
    out = tmp_path / "scores.csv"
    assert main(["predict", str(tmp_path / "turned.json"), str(data), "-o", str(out)]) == 0
    scores = pd.read_csv(out)["score"].to_numpy()
    assert shown == pytest.approx(
        evaluate(frame["label"], scores, frame["qid"], "ndcg@10")["ndcg@10"], abs=6e-4
    )
    for q in range(N_QUERIES):
        own = scores[q * N_ROWS : (q + 1) * N_ROWS]
        np.testing.assert_allclose(np.diff(own[orders[f"q{q}"]]) <= 1e-4 * np.ptp(own), True)
    turned = json.loads((tmp_path / "turned.json").read_text())
    assert turned["features"]["match"] == {"factor": -1}
    added = turned["features"]["price"]["added"]
    assert [k for k, (_, height) in enumerate(added) if height] == [2, 4]


def test_a_page_of_artifacts_shows_it_in_its_frame(browser, shop, compared):
    """As MLflow's does: in a frame that may run scripts, and nothing else."""
    page = browser.new_page()
    page.evaluate(
        """text => {
            const frame = document.createElement("iframe");
            frame.sandbox = "allow-scripts";
            frame.src = URL.createObjectURL(new Blob([text], { type: "text/html" }));
            document.body.append(frame);
        }""",
        (shop / "two.html").read_text(encoding="utf-8"),
    )
    page.frame_locator("iframe").locator(".look-reasons").wait_for()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_is_not_wider_than_its_screen(browser, shop, scheme, compared):
    narrow = Watched(
        browser, shop / "two.html", viewport={"width": 360, "height": 700}, color_scheme=scheme
    )
    assert narrow.page.evaluate("document.documentElement.scrollWidth") <= 360
    lines = narrow.page.locator(".look-lines path")
    assert lines.count() == N_ROWS
    ground = narrow.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 26)")
    narrow.close()
