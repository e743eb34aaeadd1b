"""One HTML file with everything in it: styles, scripts and data, and a policy that lets it load nothing else."""

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

THEME = resources.files("groupwise.page").joinpath("theme.css").read_text(encoding="utf-8")
"""Colours and type that all pages share, light and dark."""


def html_page(
    title: str,
    body: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    blocks: Mapping[str, bytes],
    inline_styles: bool = False,
) -> Iterator[str]:
    """The page in parts, in order.

    body: markup of the package, trusted. Everything that a model wrote belongs into `blocks`, from where a script puts
    it into the page as text. blocks: by id; a script finds one as base64 in an element that is never run, see `block`.
    inline_styles: elements may have a style of their own, as the charts of a library do.

    Nothing is loaded from anywhere, and no script runs but these: a Content-Security-Policy names them by their hashes.
    """
    style, script = "\n".join([THEME, *styles]), "\n".join(scripts)
    if "</style" in style.lower() or "</script" in script.lower() or "<!--" in script:
        raise ValueError("a style or script of a page would end its own element")
    allowed = "'unsafe-inline'" if inline_styles else f"'{_digest(style)}'"
    policy = (
        f"default-src 'none'; style-src {allowed}; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
    )
    for name, content in blocks.items():
        yield f'<script type="application/octet-stream" id="{html.escape(name)}">'
        yield base64.b64encode(content).decode()
        yield "</script>\n"
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def block(value: Any) -> bytes:
    """A value as compressed JSON; the same bytes for the same value."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return gzip.compress(text.encode(errors="replace"), 6, mtime=0)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
