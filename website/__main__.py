"""`python -m website`: builds the site into site/, and ends with an error if a link or an anchor is broken."""

import shutil
import subprocess
import sys

from website.pages import ROOT, configuration, write_pages

WORK, SITE = ROOT / "build" / "website", ROOT / "site"


def main() -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "pages").mkdir(parents=True)
    write_pages(WORK / "pages")
    (WORK / "zensical.toml").write_text(configuration(WORK / "pages"))
    built = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=WORK, check=False)
    if built.returncode:
        return built.returncode
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(WORK / "site", SITE)
    print(f"The site is in {SITE.name}/. To read it: python3 -m http.server --directory {SITE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
