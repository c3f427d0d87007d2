"""The navigation of the site: the index of the documentation is its only list."""

import json
import re

from website.links import LINK


def navigation(index: str, decisions: str) -> str:
    """The sections of the index with their pages, as a value of TOML.

    Args:
        index: docs/README.md, as the site has it.
        decisions: docs/adr/README.md: its pages stand below the index of the decisions.
    """
    below = {"adr/README.md": [_entry("Index", "adr/README.md"), *_pages(decisions, "adr/")]}
    sections = [_entry("Home", "index.md"), _entry("All pages", "pages.md")]
    for heading in re.findall(r"^## (.+)$", index, re.MULTILINE):
        rows = _rows(_section(index, heading))
        pages = [_entry(title, below.get(page, page)) for title, page in rows]
        if heading == "Reference":
            pages.append(_entry("Public names", "reference/api.md"))  # the page that only the site has
        sections.append(_entry(heading, pages))
    return _array(sections)


def _entry(title: str, pages: str | list[str]) -> str:
    value = json.dumps(pages) if isinstance(pages, str) else _array(pages)
    return f"{{ {json.dumps(title)} = {value} }}"


def _array(entries: list[str]) -> str:
    return f"[{', '.join(entries)}]"


def _section(text: str, heading: str) -> str:
    """What stands below a heading of the second level, up to the next."""
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def _pages(text: str, folder: str = "") -> list[str]:
    return [_entry(title, folder + page) for title, page in _rows(text)]


def _rows(text: str) -> list[tuple[str, str]]:
    """Title and page of the first link in each row of the tables; a page stands where it is named first."""
    titles: dict[str, str] = {}
    for row in re.findall(r"^\|.*$", text, re.MULTILINE):
        if (link := LINK.search(row)) is not None:
            titles.setdefault(link[3], link[2].replace("`", ""))
    return [(title, page) for page, title in titles.items()]
