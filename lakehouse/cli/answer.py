"""What a command answers: text for people, one JSON document for programs, an exit code for both."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one command.

    Args:
        value: What `--json` prints: dictionaries, lists, texts and numbers.
        text: What is printed without `--json`.
        code: The exit code: 0, or 1 where something is wrong that the command is there to find.
    """

    value: Any
    text: str
    code: int = 0


class UsageError(Exception):
    """The command line does not say what the command needs: exit code 2."""
