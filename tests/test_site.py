"""The site builds without the network and without a warning; every link and picture of it leads somewhere."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from groupwise.explaining.pages import subjects
from tests.support.commands import environment

ROOT = Path(__file__).parents[1]


class References(HTMLParser):
    """What a page points to: `links` for readers, `loaded` by the browser, and the names that one can point to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preconnect", "preload"):
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. A proxy that is not there would fail whatever looks at the network."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=environment(NO_MKDOCS_2_WARNING="true", **nowhere),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    notes = [line for line in (done.stdout + done.stderr).splitlines() if line and not line.startswith("INFO ")]
    assert notes == []
    assert "not included" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, References]:
    return {path: References(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_every_link_and_picture_leads_somewhere(pages: dict[Path, References], site: Path) -> None:
    checked = 0
    for path, found in pages.items():
        # The page for what is not there is served from anywhere.
        if path.name == "404.html":
            continue
        for reference in (*found.links, *found.loaded):
            url = urlsplit(reference)
            if url.scheme or url.netloc:
                assert url.scheme in ("https", "http"), reference
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            assert target.is_relative_to(site), f"{path.name}: {reference}"
            assert target.exists(), f"{path.name}: {reference}"
            if url.fragment and target in pages:
                assert unquote(url.fragment) in pages[target].names, f"{path.name}: {reference}"
            checked += 1
    assert checked > 1000


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, References], site: Path) -> None:
    loaded = {reference for found in pages.values() for reference in found.loaded}
    assert loaded
    assert [reference for reference in loaded if urlsplit(reference).netloc] == []
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert styles
    assert not [text for text in styles if "url(http" in text or "@import" in text]


def test_pages_of_techniques_are_in_the_navigation_with_their_pictures(
    pages: dict[Path, References], site: Path
) -> None:
    home = pages[site / "index.html"]
    assert {f"techniques/{subject.path}.html" for subject in subjects()} <= set(home.links)
    cispo = pages[site / "techniques" / "surrogates" / "cispo.html"]
    assert "cispo.svg" in cispo.loaded
