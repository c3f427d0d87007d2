"""What the commands share: which lakehouse their arguments name, and what they answer."""

import json
import sys
import tomllib
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import resolve_name
from shlex import quote
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from lakehouse.delta.location import BRANCH, Storage, branch_here

if TYPE_CHECKING:
    import dagster as dg
    from rich.console import RenderableType

    from lakehouse.dagster.io_manager import DeltaIOManager
    from lakehouse.dagster.resources import LocalSpark


DAGSTER_HOME = "DAGSTER_HOME"
"""The variable that names the directory of Dagster's instance."""
_MODULE = "where the definitions are: a module, or module:name; else the code location of the current directory"
_FILE = "where the definitions are: a Python file"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one command.

    Args:
        value: What `--json` prints: dictionaries, lists, texts and numbers.
        text: What is printed without `--json`: a text, or a page that is as wide and as colourful as the terminal.
        code: The exit code: 0, or 1 if the command failed or found something wrong.
    """

    value: Any
    text: "str | RenderableType"
    code: int = 0


class UsageError(Exception):
    """The command line does not say what the command needs: exit code 2."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: how its arguments are added to its parser, and what runs it."""

    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], Answer]


def add_target(parser: ArgumentParser) -> None:
    """The arguments of a command that needs definitions."""
    source = parser.add_mutually_exclusive_group()
    _add_source(source)
    parser.set_defaults(root=None)


def add_place(parser: ArgumentParser) -> None:
    """The arguments of a command that needs a root, with or without definitions."""
    source = parser.add_mutually_exclusive_group()
    _add_source(source)
    source.add_argument(
        "--root", metavar="DIR", type=_directory, help="the directory of the tables, without definitions"
    )


def _add_source(source: Any) -> None:
    source.add_argument("-m", "--module", dest="module", metavar="MODULE", help=_MODULE)
    source.add_argument("-f", "--file", dest="file", metavar="FILE", help=_FILE)


def add_table(parser: ArgumentParser) -> None:
    """The argument that names one table."""
    parser.add_argument("table", metavar="TABLE", help="the asset key, its parts joined by /")


def add_json(parser: ArgumentParser) -> None:
    """The argument that asks for one document instead of text."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def add_page(parser: ArgumentParser) -> None:
    """The arguments that ask for a page, or for one document, instead of text."""
    more = parser.add_mutually_exclusive_group()
    more.add_argument(
        "--html", metavar="FILE", type=Path, help="write the text as one HTML file, to be mailed or served"
    )
    more.add_argument("--json", action="store_true", help="print one JSON document")


def document(text: str) -> dict[str, Any]:
    """The value of an argument that is a JSON object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ArgumentTypeError(f"not a JSON object: {text}")
    return cast("dict[str, Any]", value)


def about_definitions(begin: str, words: Sequence[str]) -> str:
    """A command with the words that name the definitions; without words, those of the current directory are meant."""
    return " ".join((begin, *map(quote, words)))


@contextmanager
def checking_config() -> Generator[None]:
    """Within, a run config that Dagster does not accept is an error of the command line."""
    import dagster as dg

    try:
        yield
    except dg.DagsterInvalidConfigError as error:
        why = " ".join(each.message for each in error.errors or ())
        raise UsageError(f"The run config, which --config gives, does not fit: {why or error}") from None


def no_such(kind: str, name: str, names: Collection[str], sources: Collection[str] = ()) -> str:
    """The sentence that nothing of this kind has the name, with the names that may be meant, or with all names."""
    if name in sources:
        return f"No function of these definitions makes {name}, so there is no run of it."
    meant = [each for each in sorted(names) if each.rpartition("/")[2] == name] or get_close_matches(name, names)
    if meant:
        return f"There is no {kind} {name}. Did you mean {' or '.join(meant)}?"
    return f"There is no {kind} {name}. There are: {', '.join(sorted(names)) or 'none'}."


def _directory(given: str) -> Path:
    return Path(given).expanduser().absolute()


DEFAULT_FILE = "definitions.py"
"""The file that is loaded if no configuration file of Dagster is in the directory."""


@dataclass(frozen=True, slots=True)
class Target:
    """What holds the definitions.

    Args:
        name: A module, or `module:name`; or the path of a Python file.
        is_file: Whether it is a file.
        is_named: Whether the command line names it.
    """

    name: str
    is_file: bool
    is_named: bool

    @property
    def words(self) -> tuple[str, ...]:
        """The words with which another command names the same definitions."""
        return ("-f" if self.is_file else "-m", self.name) if self.is_named else ()


def target(given: Namespace) -> Target:
    """What the command line names, or what the current directory is configured for.

    Raises:
        UsageError: Neither of them names any definitions.
    """
    if given.file is not None:
        return Target(given.file, is_file=True, is_named=True)
    if given.module is not None:
        return Target(given.module, is_file=False, is_named=True)
    directory = Path.cwd()
    module = _module_here(directory)
    if module is not None:
        return Target(module, is_file=False, is_named=False)
    if (directory / DEFAULT_FILE).is_file():
        return Target(DEFAULT_FILE, is_file=True, is_named=False)
    raise UsageError(
        f"{directory} is not a project that dg knows (no [tool.dg.project] in a pyproject.toml), and holds no "
        f"{DEFAULT_FILE}. Name the definitions with -m MODULE or -f FILE, or the directory of the tables with "
        f"--root DIR."
    )


def definitions(given: Namespace) -> "dg.Definitions":
    """The definitions that a command is about.

    Raises:
        UsageError: There is no such module or file, or it does not hold exactly one `dg.Definitions`, or one function
            that makes them.
    """
    import dagster as dg
    from dagster.components.definitions import LazyDefinitions
    from dotenv import load_dotenv

    source = target(given)
    load_dotenv(Path.cwd() / ".env")  # as every command of Dagster does
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        loaded = _module_of_file(Path(source.name)) if source.is_file else _named_object(source.name)
    except Exception as error:
        explained = in_our_words(error)
        if explained is error:
            raise
        raise explained from error
    named: list[Any] = list(vars(loaded).values()) if isinstance(loaded, ModuleType) else [loaded]
    values = {id(value): value for value in named}.values()  # an object may have two names
    plain = [value for value in values if isinstance(value, dg.Definitions)]
    made: list[Callable[[], object]] = [value for value in values if isinstance(value, LazyDefinitions)]
    candidates = [function() for function in made] or plain  # Dagster looks no further if a function makes them
    if len(candidates) != 1 or not isinstance(candidates[0], dg.Definitions):
        module = Path(source.name).stem if source.is_file else source.name
        raise UsageError(f"{source.name} holds {len(candidates)} dg.Definitions; say which one: -m {module}:<name>.")
    if (branch := branch_here()) is not None:
        _tell_of_missing(branch, candidates[0])
    return candidates[0]


def _tell_of_missing(branch: str, defs: "dg.Definitions") -> None:
    """Says that the branch on which this process works has no directory on this machine yet: its name may be wrong."""
    from lakehouse.dagster.io_manager import code_location_of

    roots = {table.root for table in code_location_of(defs).tables.values() if table.root is not None}
    paths = [Path(root.path) for root in roots if root.storage is Storage.FILES]
    if paths and not any(path.is_dir() for path in paths):
        sys.stderr.write(
            f"{BRANCH} names the branch '{branch}', which does not exist yet: `lakehouse branch {branch}` makes it, "
            "and `lakehouse branch --list` lists the others.\n"
        )


def in_our_words(error: BaseException) -> BaseException:
    """The error, or ours in place of PySpark's error about a function that a module makes for classic Spark."""
    from lakehouse.errors import SetupError
    from lakehouse.spark.diagnosis import Meaning, diagnose

    if Meaning.OF_CLASSIC_SPARK not in diagnose(error):
        return error
    return SetupError.of_classic_spark("A module of these definitions").with_traceback(error.__traceback__)


def has_project() -> bool:
    """Whether the current directory is a code location that `dg` or `dagster` finds by its configuration."""
    return _module_here(Path.cwd()) is not None


def root_of(given: Namespace) -> Path:
    """The directory of the local tables; with `--root` nothing is loaded."""
    return given.root or local_spark(given).directory


def local_sparks(defs: "dg.Definitions") -> "dict[str, LocalSpark]":
    """The resources that are a Spark of this machine, also those inside other resources, by directory."""
    from lakehouse.dagster.resources import LocalSpark

    resources = list((defs.resources or {}).values())
    nested = [getattr(resource, "spark", None) for resource in resources]
    return {str(spark.directory): spark for spark in (*resources, *nested) if isinstance(spark, LocalSpark)}


def local_spark(given: Namespace) -> "LocalSpark":
    """The resource whose server the command is about.

    Raises:
        UsageError: The definitions have none, or several.
    """
    if given.root is not None:
        from lakehouse.dagster.resources import LocalSpark

        return LocalSpark(root=str(given.root))
    sparks = local_sparks(definitions(given))
    if len(sparks) != 1:
        having = f"several, of {', '.join(sparks)}" if sparks else "none"
        raise UsageError(f"One LocalSpark is needed, and the definitions have {having}. Say which root: --root DIR.")
    return next(iter(sparks.values()))


def named_root(given: Namespace) -> Path:
    """The directory of the tables that the command line names.

    Raises:
        UsageError: There is no such directory.
    """
    root = Path(given.root)
    if not root.is_dir():
        raise UsageError(f"There is no directory {root}.")
    return root


def manager(given: Namespace) -> "DeltaIOManager":
    """The IO manager of the tables that the command is about, whatever Spark it has.

    Raises:
        UsageError: The definitions have none, or several; or there is no directory of the name given.
    """
    from lakehouse.dagster.io_manager import DeltaIOManager, managers_of

    if given.root is not None:
        return DeltaIOManager(spark=local_spark(given), root=str(named_root(given)))
    managers = {manager.root: manager for manager in managers_of(definitions(given).resources).values()}
    if len(managers) != 1:
        having = f"several, of {', '.join(managers)}" if managers else "none"
        raise UsageError(
            f"One DeltaIOManager is needed, and the definitions have {having}. Say which root: --root DIR."
        )
    return next(iter(managers.values()))


def _named_object(name: str) -> object:
    here = Path.cwd()
    try:
        return resolve_name(name)  # the user gives the name, so an import statement cannot do this
    except ModuleNotFoundError as error:
        if error.name is None or not name.replace(":", ".").startswith(error.name):
            raise  # a module of the user imports something that is missing
        cure = "Correct the name; or install the project that has it: pip install -e ."
        raise UsageError(f"There is no module {name} here ({here}). {cure}") from error
    except AttributeError as error:
        raise UsageError(f"{name} is not there: {error}.") from error


def _module_of_file(file: Path) -> ModuleType:
    """A file as a module of its own name, as Dagster loads one."""
    spec = spec_from_file_location(file.stem, file) if file.is_file() else None
    if spec is None or spec.loader is None:
        raise UsageError(f"There is no Python file {file} here ({Path.cwd()}).")
    module = sys.modules[file.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _module_here(directory: Path) -> str | None:
    """The module of the code location that `dg` and `dagster` find in a directory; None if no file there names one."""
    files = (directory / name for name in ("dg.toml", "pyproject.toml"))
    own, python = (tomllib.loads(file.read_text()) if file.is_file() else dict[str, Any]() for file in files)
    tool = python.get("tool", {})
    for project in (own.get("project", {}), tool.get("dg", {}).get("project", {})):
        if "code_location_target_module" in project:
            return project["code_location_target_module"]
        if "root_module" in project:
            return f"{project['root_module']}.definitions"
    return tool.get("dagster", {}).get("module_name")
