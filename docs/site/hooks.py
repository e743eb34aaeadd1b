"""What MkDocs does for this site while it builds: pages of techniques in the navigation, links to files as paths.

The pages come from `make docs-pages`; the registry says in which order they stand.
"""

import re
from pathlib import Path
from typing import Any

from groupwise.explaining.pages import subjects

# Pages that are written when there is something to say: they stand in the navigation where they exist.
OPTIONAL = {
    "Reference": [("Python API", "api.md"), ("Your own techniques", "own-techniques.md")],
    "中文": [("README", "zh/README.md")],
}
_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def on_config(config: Any) -> Any:
    """The navigation, with a page for each technique below the heading of its room."""
    docs = Path(config.docs_dir)
    rooms: dict[str, list[dict[str, str]]] = {}
    for subject in subjects():
        rooms.setdefault(subject.room[1], []).append({subject.title: f"techniques/{subject.path}.md"})
    for entry in config.nav:
        for heading, pages in entry.items():
            if heading == "Techniques":
                pages.extend({room: below} for room, below in rooms.items())
            pages_here = [{title: name} for title, name in OPTIONAL.get(heading, []) if (docs / name).is_file()]
            if pages_here:
                pages.extend(pages_here)
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
