"""How answers look: values in, text out; 80 columns wide and 140, in a pipe, with colours and without."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from rich.console import RenderableType
from rich.text import Text

from lakehouse.cli.doctor import Health, Symptom, doctor_page
from lakehouse.cli.graph import Comparison, Comparisons
from lakehouse.cli.pages.run_page import asset_line, forecast_page, run_page
from lakehouse.cli.pages.screen import ago, count, render, show, span
from lakehouse.cli.pages.status_page import StatusPage
from lakehouse.cli.pages.table_pages import Change, changes_page, diff_page
from lakehouse.cli.runs.run_result import AssetEnd, AssetResult, RunResult
from lakehouse.delta.commit_info import NO_ROWS, Rows
from lakehouse.difference.between_versions import RowDiff, VersionDiff
from lakehouse.read.forecast import Forecast, InputForecast, Reading, RunEffect, WriteForecast
from lakehouse.status.lakehouse_status import LakehouseStatus, TableReport
from lakehouse.status.table_status import SourcePosition, TableStatus
from lakehouse.upkeep.due import Task, UpkeepWork

NOW = 1_700_000_000.0
MINUTE = 60_000
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def at(minutes: int) -> int:
    return int(NOW * 1000) - minutes * MINUTE


LAKE = (
    TableStatus("bronze/events", 14, at(2), rows=6_400_000),
    TableStatus(
        "silver/flights", 22, at(2), "3fa1c2d4e5", (), (SourcePosition("bronze/events", 14, 14),), rows=336_776
    ),
    TableStatus("gold/delays", 18, at(1440), "77", (), (SourcePosition("silver/flights", 20, 22, 2, at(64)),), rows=16),
    TableStatus(
        "gold/routes", 9, at(9000), "02", (), (SourcePosition("silver/flights", 17, 22, gap="it was cleaned up"),)
    ),
)
BEHIND = {"gold/delays": ()}
DUE = (Task(UpkeepWork.COMPACT, "9 of 9 files are small"),)


def page(
    statuses: Sequence[TableStatus],
    compared: Mapping[str, Comparison] = {},
    words: Sequence[str] | None = (),
    late: Sequence[str] = (),
    **more: Any,
) -> RenderableType:
    """The status of tables, some of them late with their upkeep."""
    tables = tuple(TableReport(status, due=DUE if status.name in late else ()) for status in statuses)
    return StatusPage(LakehouseStatus(int(NOW * 1000), tables), Comparisons({**compared}), words, **more).view()


STATUS = page(LAKE, {"gold/delays": Comparison(at(60), equal=True)}, ("-m", "shop"), behind=BEHIND)
CHANGES = changes_page(
    "silver/flights",
    22,
    [
        Change(20, at(1440), "MERGE", Rows(842, 0, 0), "3fa1c2d4e5"),
        Change(21, at(60), "OPTIMIZE", NO_ROWS, None),
        Change(22, at(2), "WRITE", Rows(899, 3, 1), "91d0c2d4e5"),
    ],
    NOW,
)
DIFF = diff_page(
    "gold/delays",
    (17, 18),
    VersionDiff(
        Rows(1, 1, 1),
        (
            RowDiff("update", {"carrier": "AA"}, {"worst": "12", "note": "x" * 90}, {"worst": None, "note": "y"}),
            RowDiff("insert", {"carrier": "B6"}, None, {"worst": "3"}),
            RowDiff("delete", {"carrier": "HA"}, {"worst": "1"}, None),
        ),
        added=("note",),
    ),
    "the keys in the change feed",
)
FORECAST = forecast_page(
    Forecast(
        "gold/delays",
        None,
        18,
        RunEffect.WRITES,
        "1 source of 1 changed.",
        (InputForecast("silver/flights", Reading.CHANGES, 22, 20, 2, Rows(899, 3, 1)),),
        WriteForecast(
            "View",
            "the rows that differ are written",
            ("carrier",),
            followed=(
                "Changes of flights have the keys.",
                "The table is not kept by sums, because MAX(dep_delay) is neither a plain count nor a plain sum.",
            ),
        ),
    ),
)
DOCTOR = doctor_page(
    [
        Symptom("Java", Health.GOOD, "/usr/bin/java"),
        Symptom("Delta's jars", Health.WRONG, "7 of 7 jars are missing", "lakehouse spark install"),
        Symptom("Clock", Health.LOOK, "the disk's clock is 90 s behind this machine's", "date -u"),
    ]
)
PAGES = {"status": STATUS, "changes": CHANGES, "diff": DIFF, "forecast": FORECAST, "doctor": DOCTOR}


def test_a_page_is_never_wider_than_the_screen_and_from_eighty_columns_on_no_name_is_cut() -> None:
    for name, page in PAGES.items():
        for width in (60, 80, 100, 140):
            lines = render(page, width).splitlines()
            assert max(map(len, lines)) <= width, name
            assert all(line == line.rstrip() for line in lines)
            if width >= 80 and name == "status":
                assert all(f" {status.name} " in "\n".join(lines) for status in LAKE)


def test_colours_add_nothing_that_the_plain_text_does_not_say() -> None:
    for page in PAGES.values():
        coloured = render(page, 140, "truecolor")
        assert ESCAPE.search(coloured)
        plain = [line.rstrip() for line in ESCAPE.sub("", coloured).splitlines()]
        assert plain == render(page, 140).splitlines()


def test_a_pipe_gets_plain_text_in_lines_that_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    pipe = io.StringIO()
    show(STATUS, pipe)
    assert "\x1b" not in pipe.getvalue()
    (line,) = [line for line in pipe.getvalue().splitlines() if "gold/delays" in line]
    assert line.endswith("behind: silver/flights 20 of 22, 1 h 4 min")


def test_an_output_that_takes_no_unicode_gets_signs_that_it_takes() -> None:
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show(STATUS, output)
    output.seek(0)
    text = output.read()
    assert "x gold/routes" in text and "+ silver/flights" in text and "----" in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("variable", "is_coloured"), [("NO_COLOR", False), ("OTHER", True)])
def test_colours_are_left_out_if_a_variable_says_so(
    monkeypatch: pytest.MonkeyPatch, variable: str, *, is_coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(variable, "1")
    terminal = Terminal()
    show(STATUS, terminal)
    assert bool(ESCAPE.search(terminal.getvalue())) == is_coloured


def test_the_next_command_can_be_given_as_it_is_written() -> None:
    daily = TableStatus("gold/daily", 3, at(2), "02", ("2026-01-01",))
    compared = {"gold/daily": Comparison(at(60), equal=False)}
    alone = render(page([daily], compared, ("-f", "my defs/d.py")), 160)
    assert "next: lakehouse run gold/daily --partition KEY --full-refresh -f 'my defs/d.py'" in alone
    both = {**compared, "gold/delays": Comparison(at(60), equal=False)}
    assert "next: lakehouse run gold/delays --full-refresh " in render(page([*LAKE[:3], daily], both), 160)


def test_the_status_says_how_much_there_is_how_old_it_is_and_what_to_do_next() -> None:
    wide = render(STATUS, 160)
    assert "○ bronze/events" in wide and "6.4 M" in wide and "336,776" in wide
    assert "equal 1 h ago" in wide and "gap: silver/flights: it was cleaned up" in wide
    assert "4 tables: 1 source, 1 up to date, 1 behind, 1 gap." in wide
    assert wide.endswith("next: lakehouse explain gold/routes -m shop   what the next run does about the gap\n")
    late = page(LAKE[:3], behind={**BEHIND, "gold/new": ["gold/delays"]})
    assert render(late).endswith("next: lakehouse run --behind   runs gold/delays, gold/new\n")
    assert "next:" not in render(page(LAKE, words=None)), "without definitions"


def test_a_dozen_tables_take_a_line_each_at_120_columns_below_the_headings_of_their_groups() -> None:
    names = [f"{group}/a_table_of_a_long_name{place}" for group in ("raw", "silver", "gold") for place in range(4)]
    reads = (SourcePosition("raw/events", 20, 22, 2, at(64)), SourcePosition("raw/orders", 7, 7))
    tables = [TableStatus(name, 22, at(2), "77", (), reads if "gold" in name else reads[1:], rows=99) for name in names]
    compared = dict.fromkeys(names, Comparison(at(60), equal=True))
    groups = {name: name.partition("/")[0].upper() for name in names}
    lines = render(page(tables, compared, groups=groups), 120).splitlines()[2:]
    assert [line.strip() for line in lines[:15] if "/" not in line] == ["RAW", "SILVER", "GOLD"]
    assert [name for line in lines[:15] for name in names if name in line] == names
    assert lines[14].endswith("behind: raw/events 20 of 22, 1 h 4 min")


def test_a_table_that_waits_for_one_that_is_behind_says_so() -> None:
    reads = (SourcePosition("gold/delays", 18, 18),)
    last = TableStatus("gold/worst", 3, at(3), "77", (), reads)
    shown = render(page([*LAKE[:3], last], behind={**BEHIND, "gold/worst": ["gold/delays"]}))
    (line,) = [line for line in shown.splitlines() if "gold/worst" in line and "next" not in line]
    assert line.endswith("up to date: waits for gold/delays")


def test_the_status_says_a_deadline_that_is_near_and_one_that_has_passed() -> None:
    def said(until: int) -> str:
        reading = SourcePosition("silver/flights", 20, 22, 2, at(64), until)
        return render(page([TableStatus("gold/delays", 18, at(3), "77", (), (reading,))]))

    assert "behind: silver/flights 20 of 22, 1 h 4 min; 1 d 1 h left to read them\n" in said(at(-25 * 60))
    assert "20 of 22, 1 h 4 min; limit ended 3 min ago\n" in said(at(3))
    assert "20 of 22, 1 h 4 min\n" in said(at(-49 * 60)), "it is told from two days before it on"


def test_the_status_names_some_tables_whose_upkeep_is_due_and_counts_the_others() -> None:
    names = [f"gold/t{place}" for place in range(5)]
    tables = [TableStatus(name, 1, at(1)) for name in names]
    lines = render(page(tables, words=("-m", "shop"), late=names)).splitlines()
    assert lines[-4] == "Upkeep of gold/t2 is due: OPTIMIZE, because 9 of 9 files are small."
    assert lines[-3] == "Upkeep of 2 more tables is due: lakehouse upkeep --dry-run"
    assert lines[-1] == "next: lakehouse upkeep -m shop   does the upkeep that is due"
    unasked = render(page([*LAKE[:3], *tables], late=names, behind=BEHIND))
    assert "next: lakehouse run --behind" in unasked, "what is unread comes first"


def test_the_changes_are_newest_first_and_tell_inserts_from_updates_and_deletes() -> None:
    wide = render(CHANGES, 140).splitlines()
    versions = [line.split()[0] for line in wide if line.strip()[:2] in ("20", "21", "22")]
    assert versions == ["22", "21", "20"]
    (newest,) = [line for line in wide if line.split()[:1] == ["22"]]
    assert newest.split()[4:8] == ["WRITE", "899", "3", "1"]
    assert "run 91d0c2d4" in newest and "91d0c2d4e5" not in newest


def test_a_difference_shows_the_old_and_the_new_value_of_each_column_that_differs() -> None:
    wide = render(DIFF, 140)
    assert wide.startswith("gold/delays  version 17 → 18: 3 rows changed: 1 inserted, 1 updated, 1 deleted\n")
    assert re.search(r"~ +carrier=AA +worst +12 +NULL", wide)
    assert re.search(r"\+ +carrier=B6 +worst +3", wide) and re.search(r"- +carrier=HA +worst +1", wide)
    assert "+ column note" in wide and "x" * 39 + "…" in wide


def test_the_forecast_is_a_tree_of_what_is_read_written_and_recorded() -> None:
    lines = render(FORECAST, 140).splitlines()
    assert lines[0] == "The next run of gold/delays writes (its table is at version 18)."
    assert [line[4:] for line in lines if line[:4] in ("├── ", "└── ")] == [
        "reads",
        "computes",
        "writes View by key (carrier)",
        "records silver/flights at 22, in the same commit",
    ]
    assert any("silver/flights" in line and "(20, 22]" in line for line in lines), lines


def test_the_doctor_names_the_command_that_mends_each_thing() -> None:
    lines = [line.strip() for line in render(DOCTOR, 80).splitlines()]
    assert "✖  Delta's jars  7 of 7 jars are missing" in lines and "→ lakehouse spark install" in lines
    assert lines[-1] == "1 wrong, 1 worth a look."
    assert render(doctor_page([Symptom("Java", Health.GOOD, "")])).splitlines()[-1] == "Nothing is wrong."


def test_a_run_says_a_line_for_each_asset_and_a_sentence_at_the_end() -> None:
    results = (
        AssetResult("a", AssetEnd.WRITTEN, 3, 0, 1, 1, 1.44),
        AssetResult("b/c", AssetEnd.UNCHANGED, 2, 0, 0, 0, 0.2),
        AssetResult("d", AssetEnd.FAILED, problem="It is wrong."),
        AssetResult("e", AssetEnd.NOT_RUN, problem="a step that it reads failed"),
    )
    assert [render(asset_line(each, 3)).rstrip() for each in results] == [
        "✔ a    version 3  2 rows changed: 1 updated, 1 deleted  1.4 s",
        "✔ b/c  version 2  no row changed  0.2 s",
        "✖ d    failed: It is wrong.",
        "○ e    not run: a step that it reads failed",
    ]
    assert render(asset_line(results[1], 1)).startswith("✔ b/c  version 2"), "a table that nobody asked for, too"
    ended = RunResult(
        "91d0c2d4e5", is_here=True, succeeded=False, assets=results, checks=2, failed_checks=(), seconds=64.0
    )
    assert render(run_page(ended)) == (
        "failed: 4 assets (1 written, 1 unchanged, 1 failed, 1 not run), 2 checks  1 min, run 91d0c2d4\n"
    )


def test_a_span_is_in_its_largest_unit() -> None:
    spans = {0: "0 s", 59: "59 s", 60: "1 min", 3600: "1 h", 3840: "1 h 4 min", 90_000: "1 d 1 h", 864_000: "10 d"}
    assert {seconds: span(seconds) for seconds in spans} == spans


def test_times_and_counts_are_short() -> None:
    assert (ago(None, NOW), ago(at(0), NOW), ago(at(64), NOW), ago(at(-5), NOW)) == (
        "",
        "just now",
        "1 h ago",
        "in 5 min",
    )
    assert (count(None), count(0), count(999_999), count(6_400_000)) == ("", "0", "999,999", "6.4 M")


def test_names_with_brackets_are_no_markup() -> None:
    assert render(Text("lake/[bold]table")) == "lake/[bold]table\n"
    assert "lake/[red]x" in render(page([TableStatus("lake/[red]x", 0, at(1))], words=None))
