"""The file definitions.py of a project, in which `incremental` completes the definitions of the whole project."""

import re
from pathlib import Path

_STOCK = re.compile(r"(?:\w+\.)?load_from_defs_folder\(path_within_project=Path\(__file__\)\.parent\)")
"""What `create-dagster` has the function of definitions.py return."""
_IMPORT = re.compile(r"^(?:from|import) .*\n", re.MULTILINE)


def complete_definitions(component: Path) -> str | None:
    """Has the definitions.py of a component's project call `incremental`, if the file is as `create-dagster` writes it.

    Args:
        component: The folder of the component.

    Returns:
        What was done, or what is to be done by hand, as a sentence; None if the file calls `incremental` already.
    """
    file = next((path / "definitions.py" for path in component.parents if (path / "definitions.py").is_file()), None)
    if file is None:
        return "Wrap the definitions of the project: return incremental(load_from_defs_folder(...))."
    text = file.read_text(encoding="utf-8")
    if "incremental(" in text:
        return None
    imports = list(_IMPORT.finditer(text))
    text, count = _STOCK.subn(r"incremental(\g<0>)", text)
    if count != 1 or not imports:
        return f"Wrap the definitions of the project in {file}: return incremental(...), from lakehouse."
    end = imports[-1].end()
    file.write_text(f"{text[:end]}\nfrom lakehouse import incremental\n{text[end:]}", encoding="utf-8")
    return f"Changed {file}: incremental(...) completes the definitions of the project."
