"""Mermaid's diagrams as pictures, drawn while the site is built: a reader's browser loads no script for them."""

import os
import re
from hashlib import sha256
from pathlib import Path

DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def draw(text: str, page: Path, pictures: Path) -> str:
    """The text of a page with each diagram drawn into the folder of pictures, and shown from there.

    Args:
        text: The page.
        page: Where the page of the site is.
        pictures: A folder among the pages of the site.
    """

    def replace(diagram: re.Match[str]) -> str:
        import mermaidx  # of the environment that builds the site; the tests of links do without

        picture = pictures / f"{sha256(diagram[1].encode()).hexdigest()[:12]}.svg"
        pictures.mkdir(parents=True, exist_ok=True)
        picture.write_text(mermaidx.render(diagram[1], theme="neutral").svg())
        return f"![A diagram]({os.path.relpath(picture, page.parent)}){{ .diagram }}"

    return DIAGRAM.sub(replace, text)
