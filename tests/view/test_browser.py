"""The page in Chromium: it works by pointer and keys, at any width and in the dark, and nothing a model wrote runs."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groupwise.track.rollouts import name_of, packed
from groupwise.view.build import page_of
from tests.support.browser import opened, serious_faults
from tests.support.runs import metrics, train
from tests.view.runs import HOSTILE, row, run_of, small_run

pytestmark = pytest.mark.slow

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("view")
    page = folder / "rollouts.html"
    page.write_text("".join(page_of(str(small_run(folder / "run")))), encoding="utf-8")
    return page.as_uri()


@pytest.fixture
def page() -> Iterator[Any]:
    with opened(viewport={"width": 1300, "height": 850}) as page:
        yield page


def visit(page: Any, address: str) -> None:
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("body[data-ready=true]")
    page.wait_for_selector("#panel > *", state="attached")


def summary(page: Any) -> str:
    return str(page.locator("#summary").text_content())


def selected(page: Any) -> str:
    return str(page.locator(".row[aria-selected=true] .row-facts").text_content())


def hash_of(page: Any) -> str:
    return str(page.evaluate("location.hash"))


def test_filters_by_pointing(page: Any, address: str) -> None:
    visit(page, address)
    assert summary(page) == "24 of 24 completions · mean reward 0.62 · 41.7 % correct"
    page.locator("#outcomes .chip", has_text="correct").click()
    assert summary(page) == "10 of 24 completions · mean reward 1.20 · 100.0 % correct"
    page.fill("#step-to", "2")
    page.locator("#step-to").blur()
    assert summary(page).startswith("4 of 24")
    page.click("#reset")
    assert summary(page).startswith("24 of 24")
    page.locator("#uses .chip", has_text="not trained on").click()
    assert summary(page).startswith("4 of 24")
    page.click("#reset")
    page.fill("#problem", "what is 2 + 2")
    page.locator("#problem").blur()
    assert summary(page).startswith("4 of 24")
    page.fill("#reward-from", "1")
    page.locator("#reward-from").blur()
    assert summary(page).startswith("1 of 24")


def test_sorting_and_the_timeline(page: Any, address: str) -> None:
    visit(page, address)
    page.select_option("#sort", "advantage|down")
    rewards = page.locator(".row .row-reward").all_text_contents()
    assert rewards[:10] == ["1.20"] * 10
    # Without an advantage a completion comes last.
    page.select_option("#sort", "advantage")
    page.locator("#list").focus()
    page.keyboard.press("End")
    assert "not trained on" in page.locator(".row[aria-selected=true]").text_content()
    box = page.locator("#timeline svg").bounding_box()
    page.mouse.click(box["x"] + box["width"] - 12, box["y"] + 20)
    assert summary(page).startswith("8 of 24")
    assert "from=3&to=3" in hash_of(page)


def test_search_is_through_all_texts(page: Any, address: str) -> None:
    visit(page, address)
    page.fill("#search", "LET US ADD")
    page.locator("#search").blur()
    page.wait_for_selector(".row")
    assert summary(page).startswith("5 of 24")
    page.fill("#search", "日本🙂")
    page.locator("#search").blur()
    assert summary(page).startswith("4 of 24")


def test_keys(page: Any, address: str) -> None:
    visit(page, address)
    assert "sample 0" in selected(page)
    page.keyboard.press("j")
    assert "sample 1" in selected(page)
    page.keyboard.press("k")
    page.keyboard.press("n")
    assert "sample 0" in selected(page)
    assert page.locator(".row[aria-selected=true]").get_attribute("aria-posinset") == "5"
    page.locator("#list").focus()
    page.keyboard.press("End")
    assert page.locator("#list").get_attribute("aria-activedescendant") == "at-23"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    assert "sample 1" in selected(page)
    page.keyboard.press("2")
    page.wait_for_selector(".card")
    assert page.locator("#tab-group").get_attribute("aria-selected") == "true"
    page.keyboard.press("3")
    page.wait_for_selector(".step-group")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("j2c")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "list"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def test_a_group_side_by_side_and_a_problem_over_steps(page: Any, address: str) -> None:
    visit(page, f"{address}#row=1.3.0")
    page.click("#tab-group")
    page.wait_for_selector(".card")
    assert page.locator(".card").count() == 4
    assert page.locator(".card .advantage").all_text_contents() == ["+0.50", "−0.50", "−0.50", "−0.50"]
    assert "mean reward 0.45" in page.locator("#panel").text_content()
    page.locator(".card .choose").nth(2).click()
    page.wait_for_selector("#panel .facts")
    assert "sample 2" in selected(page)
    page.click("#tab-steps")
    page.wait_for_selector(".step-group")
    assert page.locator(".step-group h3").all_text_contents()[0] == "Step 1: mean reward 0.45"
    assert page.locator("#panel svg").count() == 1
    # A completion that the filters leave out is shown without them.
    page.fill("#step-to", "1")
    page.locator("#step-to").blur()
    page.wait_for_selector(".step-group")
    page.locator(".step-group").last.locator("button").first.click()
    page.wait_for_selector("#panel .facts")
    assert page.locator("#step-to").input_value() == ""


def colours(page: Any) -> list[str]:
    return list(page.evaluate("[...document.querySelectorAll('.completion span')].map((s) => s.style.backgroundColor)"))


def test_tokens_have_the_colours_of_their_numbers(page: Any, address: str) -> None:
    visit(page, f"{address}#row=1.2.1")
    page.wait_for_selector(".completion span")
    texts = page.locator(".completion span").all_text_contents()
    assert "".join(texts) == "Let us add: 2 + 2 = 4."
    assert all("--bad-rgb" in colour for colour in colours(page))
    page.select_option("#colour", "entropy")
    page.wait_for_function("() => document.querySelector('.completion span').style.backgroundColor === ''")
    shares = [float(re.findall(r"([\d.]+)\)$", colour)[0]) if colour else 0.0 for colour in colours(page)]
    assert shares == sorted(shares)
    assert shares[-1] > 0.1
    page.select_option("#colour", "none")
    page.wait_for_function("() => document.querySelectorAll('.completion span[style*=rgb]').length === 0")
    page.locator(".completion").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    told = page.locator("#readout").text_content()
    assert told.startswith("token 2: ")
    assert "ratio ≈ 1.01" in told
    page.locator(".completion span").first.hover()
    assert page.locator("#readout").text_content().startswith("token 1: ")


def test_parts_that_a_reward_scored_are_underlined_with_their_score(page: Any, tmp_path: Path) -> None:
    text = "Let us add: 2 + 2 = 4."
    spans = {"steps": [[0, 3, 0.5], [3, 6, 0.0]]}
    run = run_of(tmp_path / "run", {1: [[row(0, 0, text, True, spans=spans), row(0, 1, text, True)]]})
    (tmp_path / "page.html").write_text("".join(page_of(str(run))), encoding="utf-8")
    visit(page, f"{(tmp_path / 'page.html').as_uri()}#row=1.0.0")
    page.wait_for_selector(".completion span")
    marks = page.evaluate(
        "[...document.querySelectorAll('.completion span')].map((s) => [s.className, s.dataset.score])"
    )
    good, bad = "scored is-good", "scored is-bad"
    assert [mark[0] for mark in marks[:7]] == [good, good, good, bad, bad, bad, ""]
    assert [mark[1] for mark in marks[:7]] == [None, None, "0.50", None, None, "0.00", None]
    assert "".join(page.locator(".completion span").all_text_contents()) == text
    assert "steps, part by part" in page.locator(".facts").text_content()
    assert "Underlined" in page.locator("#legend").text_content()
    page.locator(".completion span").nth(1).hover()
    assert "steps: 0.50 for the tokens 1 to 3" in page.locator("#readout").text_content()
    assert serious_faults(page) == []
    page.locator(".row").nth(1).click()
    page.wait_for_function("() => document.querySelectorAll('.scored').length === 0")
    assert "Underlined" not in page.locator("#legend").text_content()


def test_a_link_brings_the_view_back(page: Any, address: str) -> None:
    visit(page, address)
    page.locator("#outcomes .chip", has_text="wrong").click()
    page.fill("#search", "five")
    page.locator("#search").blur()
    page.wait_for_function("() => document.querySelector('#summary').textContent.startsWith('3 of')")
    page.locator(".row").nth(1).click()
    page.click("#tab-group")
    page.select_option("#colour", "surprise")
    page.wait_for_selector(".card")
    link, said, one = page.url, summary(page), selected(page)
    visit(page, link)
    assert (summary(page), selected(page), page.url) == (said, one, link)
    assert page.locator("#tab-group").get_attribute("aria-selected") == "true"
    assert page.locator("#colour").input_value() == "surprise"
    assert page.locator("#outcomes .chip", has_text="wrong").get_attribute("aria-pressed") == "true"
    page.evaluate("() => { location.hash = '#tab=nonsense&colour=__proto__&row=%00&sort=constructor&from=x' }")
    page.wait_for_function("() => document.querySelector('#summary').textContent.startsWith('24 of')")


def test_what_a_model_wrote_stays_text(page: Any, address: str) -> None:
    visit(page, f"{address}#row=2.5.1&tab=one")
    assert page.locator(".completion").text_content() == f"{HOSTILE} 1 é日本🙂"
    assert page.locator("#question").text_content() == HOSTILE
    page.locator("#prompt-box summary").click()
    assert page.locator("#prompt").text_content() == HOSTILE
    for tab in ("2", "3"):
        page.keyboard.press(tab)
        page.wait_for_timeout(100)
    assert page.title() == "run: rollouts"
    assert page.locator("img, svg[onload]").count() == 0
    assert page.evaluate("document.scripts.length") == 1 + 7


def run_another_script(address: str) -> None:
    with opened() as page:
        visit(page, address)
        page.evaluate("() => document.body.append(document.createElement('script'))")
        page.evaluate("() => { document.body.lastChild.textContent = 'document.title = 1' }")
        assert page.title() == "run: rollouts"


def test_no_other_script_can_run(address: str) -> None:
    with pytest.raises(AssertionError, match="Content Security Policy"):
        run_another_script(address)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1300])
def test_axe_finds_no_serious_fault(address: str, scheme: str, width: int) -> None:
    context = {"viewport": {"width": width, "height": 850}, "color_scheme": scheme, "bypass_csp": True}
    with opened(**context) as page:
        visit(page, f"{address}#row=3.6.0")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[scheme]
        assert serious_faults(page) == []
        if width < 800:
            assert not page.locator("#panel").is_visible()
            page.locator(".row").nth(2).click()
            page.locator("#panel").wait_for(state="visible")
            assert not page.locator("#list").is_visible()
        views = (("one", "pull", ".completion span"), ("group", "surprise", ".card"), ("steps", "none", ".step-group"))
        for tab, colour, what in views:
            page.select_option("#colour", colour)
            page.click(f"#tab-{tab}")
            page.wait_for_selector(what)
            assert serious_faults(page) == [], tab
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width < 800:
            page.click("#back")
            page.locator("#list").wait_for(state="visible")
        page.click("#theme")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.click("#help-open")
        assert serious_faults(page) == []


def test_the_page_of_a_run_that_was_trained(tmp_path: Path, page: Any) -> None:
    train(tmp_path / "run", "run.steps=2", "run.rollouts_every_steps=1")
    file = tmp_path / "rollouts.html"
    file.write_text("".join(page_of(str(tmp_path / "run"))), encoding="utf-8")
    visit(page, f"{file.as_uri()}#uses=trained+on&colour=surprise")
    lines = metrics(tmp_path / "run")
    completions = 4 * sum(int(line["groups/sampled"]) for line in lines)
    trained = 4 * sum(int(line["groups/admitted"]) for line in lines)
    assert summary(page).startswith(f"{trained} of {completions} completions")
    assert page.locator(".completion span").count() > 2
    assert any("rgb" in colour for colour in colours(page))
    page.locator("#prompt-box summary").click()
    assert "<|im_start|>user" in page.locator("#prompt").text_content()


@pytest.mark.exhaustive
def test_fifty_thousand_completions(tmp_path: Path, page: Any) -> None:
    """250 steps of 25 groups of 8, of 200 words each."""
    folder = run_of(tmp_path / "run", {})
    words = " ".join(f"word{number}" for number in range(200))
    for step in range(1, 251):
        groups = [
            [row(25 * step + g, s, "", right=s < 3, completion=f"{words} {step}.{g}.{s}", ids=[]) for s in range(8)]
            for g in range(25)
        ]
        (folder / name_of(step)).write_bytes(b"".join(map(packed, groups)))
    file = tmp_path / "rollouts.html"
    file.write_text("".join(page_of(str(folder))), encoding="utf-8")
    visit(page, file.as_uri())
    assert summary(page).startswith("50,000 of 50,000")
    assert page.locator(".row").count() < 40
    page.locator("#list").focus()
    page.keyboard.press("End")
    assert page.locator("#list").get_attribute("aria-activedescendant") == "at-49999"
    page.fill("#search", "250.24.7")
    page.locator("#search").blur()
    page.wait_for_function("() => document.querySelector('#summary').textContent.startsWith('1 of')", timeout=60_000)
    assert page.locator("#where").text_content().startswith("step 250")
