"""What MkDocs does for this site while it builds: pages of techniques in the navigation, links to files as paths.

The pages come from `make docs-pages`; the registry says in which order they stand.
"""

import re
from pathlib import Path
from typing import Any

from groupwise.explaining.pages import subjects

# Where a page goes that mkdocs.yml does not name; all others are guides.
PLACES = {"zh/": "中文", "api": "Reference"}
_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def on_config(config: Any) -> Any:
    """The navigation, with a page for each technique below the heading of its room."""
    docs = Path(config.docs_dir)
    rooms: dict[str, list[dict[str, str]]] = {}
    for subject in subjects():
        rooms.setdefault(subject.room[1], []).append({subject.title: f"techniques/{subject.path}.md"})
    headings = {heading: pages for entry in config.nav for heading, pages in entry.items()}
    headings["Techniques"].extend({room: below} for room, below in rooms.items())
    named = set(re.findall(r"[\w./-]+\.md", str(config.nav)))
    for name in sorted(str(path.relative_to(docs)) for path in docs.rglob("*.md")):
        if name not in named:
            headings[next((at for start, at in PLACES.items() if name.startswith(start)), "Guides")].append(name)
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 - MkDocs names them
    """A link to a file of the repository, which the site does not have, as its path."""
    folder, docs = Path(page.file.src_uri).parent, Path(config.docs_dir)

    def shown(found: re.Match[str]) -> str:
        text, target = found.groups()
        file = (docs / folder / target.partition("#")[0]).resolve()
        if file.is_relative_to(docs.resolve()) or not file.exists():
            return found.group()
        path = file.relative_to(docs.resolve().parent)
        return f"{text} (`{path}`)" if text.strip("`") != str(path) else f"`{path}`"

    return _LINK.sub(shown, markdown)
