"""The Markdown pages of the repository as a folder of pages for zensical."""

import ast
import shutil
from pathlib import Path, PurePosixPath

from website.api import page_of_names
from website.diagrams import draw
from website.links import relink
from website.navigation import navigation

ROOT = Path(__file__).parents[1]
OF_THE_ROOT = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "CONTEXT.md": "words.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages that have another place in the site than in the repository."""


def homes(root: Path = ROOT) -> dict[Path, PurePosixPath]:
    """Where the site has each page, picture and text of the repository."""
    docs = root / "docs"
    files = [path for path in sorted(docs.rglob("*")) if path.suffix in {".md", ".png", ".svg", ".txt"}]
    moved = {root / path: PurePosixPath(home) for path, home in OF_THE_ROOT.items()}
    return {path: PurePosixPath(path.relative_to(docs).as_posix()) for path in files} | moved


def write_pages(folder: Path, root: Path = ROOT) -> None:
    """Every page and picture, relinked, with its diagrams drawn; and the page of the public names.

    Raises:
        ValueError: A page links a file that is not there, or a public name has no place on its page.
    """
    places = homes(root)
    for path, home in places.items():
        target = folder / home
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(draw(relink(path.read_text(), path, root, places), target, folder / "images"))
        else:
            shutil.copy(path, target)
    (folder / "reference/api.md").write_text(page_of_names(public_names(root)))
    shutil.copy(Path(__file__).with_name("site.css"), folder)


def public_names(root: Path = ROOT) -> list[str]:
    """`lakehouse.__all__`, read from the source: the site needs neither Spark nor Dagster."""
    module = ast.parse((root / "lakehouse/__init__.py").read_text())
    assignments = [node for node in module.body if isinstance(node, ast.Assign)]
    (names,) = (node.value for node in assignments if ast.unparse(node.targets[0]) == "__all__")
    return ast.literal_eval(names)


def configuration(pages: Path) -> str:
    """zensical.toml with the navigation of these pages."""
    index, decisions = ((pages / name).read_text() for name in ("pages.md", "adr/README.md"))
    written = Path(__file__).with_name("zensical.toml").read_text()
    return written.replace("[project]\n", f"[project]\nnav = {navigation(index, decisions)}\n", 1)
