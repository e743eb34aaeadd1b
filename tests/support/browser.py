"""A page in Chromium without a screen, with what goes wrong in it; skipped where there is no Chromium or playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)


@contextmanager
def opened(**context: Any) -> Iterator[Any]:
    """A page of playwright; what its console says as an error or warning fails the test at the end.

    The policy of a page is off for the tests' own scripts with `bypass_csp=True`.
    """
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("there is no chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(**context).new_page()
        page.set_default_timeout(15_000)
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if not request.url.startswith("file:") else None)
        yield page
        browser.close()
        if said:
            raise AssertionError("\n".join(said))


def serious_faults(page: Any) -> list[str]:
    """What axe-core finds serious or worse."""
    pytest.importorskip("axe_playwright_python")
    axe = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(axe)
    found = page.evaluate("axe.run()")["violations"]
    return [
        f"{fault['id']}: {[node['target'] for node in fault['nodes']]}"
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
