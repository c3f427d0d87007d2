"""How the findings of `lakehouse doctor` look: a line for each, and the command that mends it below."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lakehouse.cli.examinations import Health, Symptom
from lakehouse.cli.pages.screen import GOOD, NAME, QUIET, WAITING, WRONG, assemble

_SIGNS: Mapping[Health, tuple[str, str]] = {
    Health.GOOD: ("✔", GOOD),
    Health.LOOK: ("!", WAITING),
    Health.WRONG: ("✖", WRONG),
}


def doctor_page(symptoms: Sequence[Symptom]) -> RenderableType:
    """What was found, in the order in which it was looked at."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for symptom in symptoms:
        sign, style = _SIGNS[symptom.health]
        what = Text(symptom.what, "" if symptom.health is Health.GOOD else style)
        if symptom.command is not None:
            what = Group(what, assemble(("→ ", QUIET), (symptom.command, NAME)))
        table.add_row(assemble((sign, style)), symptom.about, what)
    return Group(table, Text(), _summary(symptoms))


def _summary(symptoms: Sequence[Symptom]) -> Text:
    wrong = sum(symptom.health is Health.WRONG for symptom in symptoms)
    look = sum(symptom.health is Health.LOOK for symptom in symptoms)
    if not wrong and not look:
        return assemble(("Nothing is wrong.", GOOD))
    parts = [f"{wrong} wrong"] * bool(wrong) + [f"{look} worth a look"] * bool(look)
    return assemble((", ".join(parts) + ".", WRONG if wrong else WAITING))
