"""The whole walk in a real browser: holes, live tokens, steps, freezing, comparing, links."""

from __future__ import annotations

import time

import pytest

from tests.serve.conftest import running, served

pytest.importorskip("selenium")
pytest.importorskip("uvicorn")


class Walker:
    """A person at the page."""

    def __init__(self, browser, address: str):
        self.browser, self.address = browser, address
        browser.get(address)
        self.until(lambda: self.js("return models.length"))

    def __getitem__(self, name: str):
        return self.browser.find_element("id", name)

    def js(self, code: str, *given: object):
        return self.browser.execute_script(code, *given)

    def until(self, ready, seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < end, self["said"].text
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        """Keys that go to the page, not to a field."""
        self.js("document.activeElement.blur()")
        self.browser.switch_to.active_element.send_keys(*keys)

    def write(self, text: str) -> None:
        self["text"].clear()
        self["text"].send_keys(text)

    def done(self) -> None:
        self.until(lambda: self.js("return running === null && timer === null"))

    def fill(self) -> None:
        from selenium.webdriver.common.keys import Keys

        self["text"].send_keys(Keys.CONTROL, Keys.ENTER)
        self.done()

    def texts(self, pane: int = 0) -> list[str]:
        return self.js("return panes[arguments[0]].spans.map(s => s.textContent)", pane)

    def shown(self, pane: int = 0) -> list[int | None]:
        """Tokens of a pane; None where nothing stands, which is seen to be masked."""
        found = self.js("const p = panes[arguments[0]]; return p.template(now, () => true)", pane)
        assert self.having("masked", pane) == [i for i, t in enumerate(found) if t is None]
        return found

    def having(self, kind: str, pane: int = 0) -> list[int]:
        code = """return panes[arguments[0]].spans.flatMap((s, l) =>
            s.classList.contains(arguments[1]) ? [l] : [])"""
        return self.js(code, pane, kind)

    def errors(self) -> list:
        return [e for e in self.browser.get_log("browser") if e["level"] == "SEVERE"]


def panes_of(page: Walker) -> list:
    return page.browser.find_elements("tag name", "article")


@pytest.fixture(scope="module")
def address():
    with running(served("adlm", "ar")) as server:
        yield server.address


@pytest.fixture
def page(browser, address):
    browser.set_window_size(1100, 900)
    browser.get("about:blank")
    made = Walker(browser, address)
    made.js("document.getElementById('speed').value = '40'")
    yield made
    assert made.errors() == []


def test_words_become_holes_and_are_filled_live(page):
    from selenium.webdriver.common.keys import Keys

    page.write("the law of the sea")
    select = (
        "const t = document.getElementById('text'); t.focus(); t.setSelectionRange(...arguments)"
    )
    page.js(select, 15, 18)
    page["text"].send_keys(Keys.ALT, "m")
    page.js(select, 4, 10)
    page["hole"].click()
    assert page["text"].get_attribute("value") == "the [MASK:2] the [MASK]"
    page.fill()
    shown = page.texts()
    assert None not in page.shown()
    assert "".join(shown[:4] + shown[6:11]) == "the " + " the "
    assert page.having("given") == [0, 1, 2, 3, 6, 7, 8, 9, 10]
    assert page.having("anchor") != []
    assert "done" in page["said"].text


def test_steps_are_paused_scrubbed_and_taken_again(page):
    from selenium.webdriver.common.keys import Keys

    page.write("the law [MASK:20] of")
    page.fill()
    final = page.shown()
    page.press(Keys.HOME)
    assert page.shown().count(None) == 20
    page.js("document.getElementById('speed').value = '5'")
    page.press(" ")
    page.until(lambda: page.js("return now") >= 1)
    page.press(" ")
    at = page.js("return now")
    time.sleep(0.4)
    assert page.js("return now") == at
    page.js("const s = $('scrub'); s.value = 14; s.dispatchEvent(new Event('input'))")
    assert "step 14 of" in page["where"].text
    half = page.shown()
    assert 0 < half.count(None) < 20
    page.js("document.getElementById('speed').value = '40'")
    page.press("r")
    page.done()
    again = page.shown()
    assert None not in again
    assert again != final
    assert all(new == old for new, old in zip(again, half, strict=True) if old is not None)
    page.press(Keys.ARROW_LEFT)
    page.js("go(14)")
    assert page.shown() == half


def test_frozen_tokens_stay_and_the_rest_is_redrawn(page):
    page.write("the law [MASK:20] of")
    page.fill()
    before = page.shown()
    tokens = page.browser.find_elements("css selector", "article .t")
    page.js("arguments[0].focus()", tokens[10])
    tokens[10].send_keys("f")
    tokens[12].click()
    tokens[0].click()  # given: nothing to freeze
    assert page.having("frozen") == [10, 12]
    page.press("d")
    page.done()
    after = page.shown()
    assert [after[10], after[12]] == [before[10], before[12]]
    assert after[:8] == before[:8]
    assert after != before


def test_a_token_tells_its_probability(page):
    page.write("a[MASK:3]")
    page.fill()
    token = page.browser.find_elements("css selector", "article .t")[2]
    page.js("arguments[0].focus()", token)
    assert "probability 0." in page["tip"].text
    assert "written at step" in page["tip"].text


def test_two_models_write_from_one_seed_and_score(page):
    page.js("const o = document.getElementById('other'); o.value = 'ar'; o.onchange()")
    page.write("the law [MASK:8] of")
    page.fill()
    assert None not in page.shown(0) + page.shown(1)
    assert page.shown(0) != page.shown(1)
    page.press("p")
    page.until(lambda: page.js("return panes.every(p => p.scores)"))
    assert all(p.find_elements("class name", "heat") for p in panes_of(page))
    heads = [h.text for h in page.browser.find_elements("css selector", "article h2")]
    assert "perplexity ≤" in heads[0]
    assert "perplexity " in heads[1]
    assert "≤" not in heads[1]
    page.press("p")
    assert not any(p.find_elements("class name", "heat") for p in panes_of(page))


def test_a_link_brings_the_state_back(page):
    page.write("the law [MASK:20] <b>é</b>")
    page.fill()
    page.js("go(12)")
    page.js("document.getElementById('speed').value = '40'")
    page.press("r")
    page.done()
    page.browser.find_elements("css selector", "article .t")[9].click()
    page.js("go(15)")
    was = page.shown(), page.having("frozen")
    link = page.address + "/" + page.js("return link()")
    page.browser.get("about:blank")
    page.browser.get(link)
    page.until(
        lambda: page.js("return models.length && panes[0].done && now === 15 && timer === null")
    )
    assert (page.shown(), page.having("frozen")) == was


def test_a_replay_page_is_saved(page, tmp_path):
    page.browser.execute_cdp_cmd(
        "Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.write("the [MASK:4] <script>")
    page.fill()
    text = "".join(page.texts())
    page.press("s")
    saved = tmp_path / "replay-adlm.html"
    page.until(saved.is_file)
    page.browser.get(f"{saved.as_uri()}#99")
    assert page.browser.find_element("css selector", "article p").text == text


def test_what_is_refused_is_said(page):
    page.write("[MASK:999]")
    page.fill()
    assert "only 64 fit" in page["said"].text
    page.browser.get_log("browser")  # the browser notes the answer 400 itself


def test_a_narrow_screen_has_everything_and_nothing_jumps(page):
    page.browser.set_window_size(420, 900)
    page.write("the law [MASK:20] of")
    top = "$(i).getBoundingClientRect().top + scrollY"
    tops = f"return ['again', 'scrub', 'panes'].map(i => {top})"
    before = page.js(tops)
    page.fill()
    assert page.js(tops) == before
    assert page.js("return document.documentElement.scrollWidth <= innerWidth")
    assert all(page[name].is_displayed() for name in ("fill", "again", "redraw", "share", "scrub"))
