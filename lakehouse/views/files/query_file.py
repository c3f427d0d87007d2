"""A file that holds a query without a head; its path begins at the file of the code that names it."""

from pathlib import Path
from types import FrameType

from lakehouse.errors.views import ViewError
from lakehouse.views.sql.tokens import tokens
from lakehouse.views.view_text import Origin, ViewText, view_error


def read_query(path: str | Path, beside: str) -> ViewText:
    """The query that a file holds without a head.

    Args:
        path: The file; a path that is not absolute begins at the folder of `beside`.
        beside: A file, or the name of something that is not a file (a prompt): then a path begins at the working
            directory.

    Raises:
        ViewError: There is no such file, it is not in UTF-8, or it holds a statement with a head.
    """
    file = path_beside(path, beside)
    try:
        text = text_of(file)
    except OSError as error:
        what, remedy = f"{path} cannot be read: {error.strerror}", "Name the file from the folder of the calling file."
        raise ViewError("VIEW_FILE", what, None, remedy) from error
    origin = Origin(str(file))
    sequence = tokens(text, origin)
    if not sequence or sequence[0].is_word("CREATE"):
        what = "the file holds a statement with a head" if sequence else "the file holds no query"
        remedy = "View.of takes the query alone, because the asset declares its table; views_from takes statements."
        raise view_error("VIEW_HEAD", what, remedy, text, sequence[0].start if sequence else 0, origin)
    last = next((token for token in reversed(sequence) if not token.is_symbol(";")), sequence[-1])
    begin = sequence[0].start
    return ViewText(text[begin : last.end], origin=origin.after(text, begin))


def text_of(file: Path) -> str:
    """The text of a SQL file.

    Raises:
        ViewError: The file is not in UTF-8.
        OSError: The file cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        what, remedy = "the file is not in UTF-8", "Save the file as UTF-8."
        raise ViewError("VIEW_FILE", what, None, remedy, file=str(file), line=line) from error


def calling_file(frame: FrameType | None) -> str:
    """The file of the code that calls the function of a frame; empty if it is not known."""
    caller = None if frame is None else frame.f_back
    return "" if caller is None else caller.f_code.co_filename


def path_beside(path: str | Path, file: str) -> Path:
    """A path that begins at the folder of a file, unless it is absolute."""
    return Path(file).parent.joinpath(path) if Path(file).is_absolute() else Path(path).absolute()
