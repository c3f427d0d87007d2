"""`lakehouse status --html`: its text as one file for a browser, in which no text that others wrote acts as HTML."""

import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from deltalake import DeltaTable

from benchmarks.harness.earlier import set_back
from lakehouse.cli.graph import Comparison, Comparisons
from lakehouse.cli.main import main
from lakehouse.cli.pages.screen import as_html
from lakehouse.cli.pages.status_page import StatusPage
from lakehouse.status.lakehouse_status import LakehouseStatus, LostAttempts, TableReport
from lakehouse.status.table_status import NewCode, SourcePosition, TableStatus
from tests.support.marked_tables import append, run

NOW = 1_700_000_000_000
DAY = 86_400_000
HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=y>&[red]"


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements, self.text = list[tuple[str, dict[str, str | None]]](), list[str]()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """`silver/orders` is behind, `gold/late` holds back files that it has not read, `gold/daily` has lost attempts."""
    root = tmp_path / "lake"
    append(root, "bronze/orders", 1, 2)
    run(root, "silver/orders", "bronze/orders")
    append(root, "bronze/orders", 3)
    keeps = {"delta.deletedFileRetentionDuration": "interval 7 days", "lakehouse.timeTravel": "interval 1 day"}
    DeltaTable(str(root / "silver/orders")).alter.set_table_properties(keeps, raise_if_not_exists=False)
    run(root, "gold/late", "silver/orders")
    DeltaTable(str(root / "silver/orders")).delete("id = 9")
    set_back(root / "silver/orders", 6)
    for version in range(20):
        run(root, "gold/daily", "bronze/orders", lost_to=(version - 1,) if version in (5, 9) else ())
    return root


def test_the_page_has_the_words_of_the_text_and_needs_no_other_file_and_no_script(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.html"
    assert main(["status", "--root", str(lake)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert main(["status", "--root", str(lake), "--html", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}\n"
    page = Page(file.read_text(encoding="utf-8"))
    for words in (
        "gold/daily lost 2 attempts in 7 days to another run of it",
        "Upkeep of gold/daily is due",
        "4 tables: ",
    ):
        assert words in text and words in page.words
    assert {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object", "base", "form"} == set()
    assert re.findall(r"https?:|url\(|@import", file.read_text()) == []


def test_no_name_and_no_message_becomes_an_element_or_an_attribute() -> None:
    reads = (SourcePosition(HOSTILE, 1, 2, 1, NOW - DAY, NOW - 1), SourcePosition(HOSTILE, 1, 2, gap=HOSTILE))
    status = TableStatus(f"{HOSTILE}/{HOSTILE}", 1, NOW, "r", (), reads, new_code=NewCode(HOSTILE, 1))
    unreadable = TableStatus(HOSTILE, None, None, problem=HOSTILE)
    lost = LostAttempts(HOSTILE, HOSTILE, 1, NOW)
    tables = (TableReport(status, lost=(lost,), problem=HOSTILE), TableReport(unreadable))
    compared = Comparisons({status.name: Comparison(NOW, equal=False, of=HOSTILE)})
    page = Page(as_html(StatusPage(LakehouseStatus(NOW, tables), compared).view()))
    assert {tag for tag, _ in page.elements} & {"script", "img"} == set()
    assert [name for _, named in page.elements for name in named if name.startswith("on")] == []
    assert HOSTILE in page.words, "it is shown as what it is"


def test_the_text_and_the_document_say_deadlines_and_due_upkeep(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["status", "--root", str(lake), "--html", str(lake / "nowhere" / "page.html")])
    assert ended.value.code == 2
    assert "page.html cannot be written: No such file or directory." in capsys.readouterr().err
    assert main(["status", "--root", str(lake)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"orders 1 of 2, 6 d; 23 h( \d+ min)? left to read them\n", text), text
    assert "Upkeep of gold/daily is due: OPTIMIZE, because 20 of 20 files are small.\n" in text
    assert main(["status", "--root", str(lake), "--json"]) == 0
    tables = {table["name"]: table for table in json.loads(capsys.readouterr().out)["tables"]}
    assert tables["gold/daily"]["due"] == [{"work": "compact", "why": "20 of 20 files are small"}]
    assert [pair["attempts"] for pair in tables["gold/daily"]["lost_attempts"]] == [2]
    assert tables["gold/late"]["reads"][0]["until"] > time.time() * 1000
    assert tables["gold/daily"]["files"] == 20
