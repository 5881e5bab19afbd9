"""Make the README's moving picture: a text appears out of masks, rare words coloured.

python docs/picture.py bd3lm docs/replay.gif     what `adlm watch` shows

Takes the replay page through a real browser (Chromium and its driver), frame by frame.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

import adlm
from adlm import api
from adlm.models import shipped
from adlm.samplers import template
from adlm.samplers.shipped import manner
from adlm.viz.html import write_replay

FRAMES = 24
SIZE = (860, 90)  # width, and what a window has in height beside the page


def main() -> None:
    run, out = sys.argv[1:3]
    model = adlm.load(run)
    how = api.settings(seed=0, **manner())
    start = template.opening(shipped.SALUTE, model.config.data.length, model.vocab)
    trace = model.record(model.blank(start), how)[1]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "replay.html"
        write_replay(trace, page)
        frames = shoot(page)
    first, *rest = frames
    first.save(out, save_all=True, append_images=rest, duration=[220] * len(rest) + [2500], loop=0)
    print(f"{out}: {len(frames)} frames, {Path(out).stat().st_size / 1024:.0f} KiB")


def shoot(page: Path) -> list[Image.Image]:
    """The page at evenly spread steps."""
    options = Options()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(word)
    browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        browser.set_window_size(*SIZE)
        browser.get(page.resolve().as_uri())
        last = browser.execute_script("return Number(document.getElementById('scrub').max)")
        browser.execute_script(
            "const style = document.createElement('style');"
            "style.textContent = '* { transition: none !important }'; document.head.append(style)"
        )
        height = browser.execute_script("return document.querySelector('main').offsetHeight")
        browser.set_window_size(SIZE[0], height + SIZE[1])
        frames = []
        for number in range(FRAMES + 1):
            browser.execute_script(
                "const s = document.getElementById('scrub'); s.value = arguments[0];"
                "s.dispatchEvent(new Event('input'))",
                round(last * number / FRAMES),
            )
            picture = Image.open(io.BytesIO(browser.get_screenshot_as_png()))
            frames.append(picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=64))
        return frames
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
