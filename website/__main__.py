"""`python -m website`: builds the site into site/, and ends with an error if a link or an anchor is broken."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from website.pages import ROOT, configuration, write_pages

WORK, SITE = ROOT / "build" / "website", ROOT / "site"
FROM_ELSEWHERE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//", re.IGNORECASE)


def main() -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "pages").mkdir(parents=True)
    write_pages(WORK / "pages")
    (WORK / "zensical.toml").write_text(configuration(WORK / "pages"))
    built = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=WORK, check=False)
    if built.returncode:
        return built.returncode
    if pages := pages_that_load(WORK / "site"):
        print(f"These pages load something from another server: {', '.join(pages)}")
        return 1
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(WORK / "site", SITE)
    print(f"The site is in {SITE.name}/. To read it: python3 -m http.server --directory {SITE.name}")
    return 0


def pages_that_load(site: Path) -> list[str]:
    """The pages that would need a network: a script, a style, a font or a picture of theirs is on another server."""
    pages = (path for path in sorted(site.rglob("*.html")) if FROM_ELSEWHERE.search(path.read_text()))
    return [path.relative_to(site).as_posix() for path in pages]


if __name__ == "__main__":
    sys.exit(main())
