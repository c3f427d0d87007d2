"""A link of a page in the repository, as the site has it."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")
"""An image or not, its text, the path that it names, and the anchor with its `#`."""


def relink(text: str, page: Path, root: Path, homes: Mapping[Path, PurePosixPath]) -> str:
    """The text of a page whose links lead to what the site has; a link to any other file is its text alone.

    Args:
        text: The page.
        page: Where the page is in the repository.
        root: The repository.
        homes: For each file that the site has, where it has the file.

    Raises:
        ValueError: A link names no file of the repository.
    """

    def replace(link: re.Match[str]) -> str:
        picture, words, target, anchor = link[1], link[2], link[3], link[4] or ""
        if not target:
            return link[0]
        named = Path(os.path.normpath(page.parent / target))
        if not named.exists():
            raise ValueError(f"{page.relative_to(root)} links {target}, which is not there")
        if (home := homes.get(named)) is None:
            return words
        path = os.path.relpath(home, homes[page].parent)
        return f"{picture}[{words}]({path}{anchor})"

    return outside_code(text, lambda part: LINK.sub(replace, part))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text, changed where it is no block of code."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else change(part) for part in parts)
