"""The report in a real browser: it fits a phone, shows its verdict and pictures, loads nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from enginehouse.report.report import write_report
from tests.report_run import make_page

CHROMIUM = shutil.which("chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--no-first-run", "--disable-sync", "--disable-component-update"),
)
PHONE = {"width": 390, "height": 844}
SMALL_PHONE = {"width": 320, "height": 568}
DESKTOP = {"width": 1280, "height": 900}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("run")
    return write_report(folder / "out", make_page(folder)).as_uri()


def open_page(browser: Browser, address: str, size: dict[str, int], scheme: str) -> Page:
    """Open the report; its messages, dialogs and requests are kept in `page.seen`."""
    page = browser.new_page(viewport=size, color_scheme=scheme)
    page.seen = []
    page.on("console", lambda message: page.seen.append(message.text))
    page.on("dialog", lambda dialog: (page.seen.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: page.seen.append(request.url))
    page.goto(address)
    return page


@pytest.mark.parametrize("size", [PHONE, SMALL_PHONE, DESKTOP])
def test_it_fits_without_sideways_scrolling(
    browser: Browser, address: str, size: dict[str, int]
) -> None:
    page = open_page(browser, address, size, "light")
    page.locator("summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    # Nothing is cut off either: only what may scroll inside itself is wider than its box.
    wide = """[...document.querySelectorAll('section, table, td, th, p, li')]
        .filter(e => !e.closest('.scroll') && e.scrollWidth > e.clientWidth + 1)
        .map(e => e.outerHTML.slice(0, 200))"""
    assert page.evaluate(wide) == []
    page.close()


def test_the_verdict_is_seen_first(browser: Browser, address: str) -> None:
    page = open_page(browser, address, PHONE, "light")
    for box in (page.locator("h1").bounding_box(), page.locator(".verdict").bounding_box()):
        assert box is not None
        assert box["y"] + box["height"] < PHONE["height"]
    assert page.locator(".verdict").inner_text() == "champion"
    page.close()


def test_every_picture_loads_and_nothing_else_is_asked_for(browser: Browser, address: str) -> None:
    page = open_page(browser, address, PHONE, "light")
    widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
    # Twelve predictions, what six of them rest on, two plots, one thumbnail, the first batch,
    # two flips.
    assert len(widths) == 24
    assert all(width > 0 for width in widths)
    assert page.seen == [address]
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_words_stand_out_from_the_ground(browser: Browser, address: str, scheme: str) -> None:
    """Contrast of at least 4.5 (WCAG 2.2, level AA) for every colour of text on its ground."""
    page = open_page(browser, address, PHONE, scheme)
    contrasts = page.evaluate(CONTRASTS)
    page.close()
    assert len(contrasts) > 8
    assert {where: ratio for where, ratio in contrasts.items() if ratio < 4.5} == {}


CONTRASTS = """() => {
  const parse = text => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], [x, y, z]) =>
    [a * r + (1 - a) * x, a * g + (1 - a) * y, a * b + (1 - a) * z, 1];
  const ground = e => {
    const own = parse(getComputedStyle(e).backgroundColor);
    if (own[3] === 1) return own;
    return over(own, e.parentElement ? ground(e.parentElement) : [255, 255, 255]);
  };
  const luminance = c => c.slice(0, 3)
    .map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const found = {};
  for (const e of document.body.querySelectorAll('*')) {
    const words = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!words || e.closest('svg')) continue;
    const back = ground(e), ink = over(parse(getComputedStyle(e).color), back);
    const [high, low] = [luminance(ink), luminance(back)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05), where = e.tagName + '.' + e.className;
    found[where] = Math.min(found[where] ?? 99, ratio);
  }
  return found;
}"""
