"""What `dg scaffold defs` writes: components as YAML or Python, and `incremental` in the project's definitions.py."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import yaml


@dataclass(frozen=True, slots=True)
class Written:
    """A component, as it is written to a file."""

    type: str
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def yaml(self) -> str:
        content = {"type": self.type, "attributes": dict(self.attributes)}
        return yaml.safe_dump(content, sort_keys=False, default_flow_style=False)

    @property
    def function(self) -> str:
        """The function of a module that gives the component."""
        _, name = self.type.rsplit(".", maxsplit=1)
        arguments = "".join(f"        {name}={_python(value)},\n" for name, value in self.attributes.items())
        head = f"@dg.component_instance\ndef {as_word(name)}(context: dg.ComponentLoadContext) -> {name}:\n"
        return f"{head}    return {name}(\n{arguments}    )\n"


def write_components(request: dg.ScaffoldRequest[Any], components: Sequence[Written]) -> None:
    """Writes components in the form that `dg` asks for; appends them to what the file holds, if asked to."""
    match request.scaffold_format:
        case "yaml":
            file, text = "defs.yaml", "---\n".join(component.yaml for component in components)
        case "python":
            file, text = "component.py", _module(components)
    if request.append:  # the path is that of the file
        with request.target_path.open("a", encoding="utf-8") as target:
            target.write(f"---\n{text}")
    else:
        (request.target_path / file).write_text(text, encoding="utf-8")


def _module(components: Sequence[Written]) -> str:
    """A module with a function for each component. Dagster's own text for this form has functions without a result."""
    types = [component.type.rsplit(".", maxsplit=1) for component in components]
    imports = "\n".join(f"from {module} import {name}" for module, name in types)
    functions = "\n\n".join(component.function for component in components)
    return f"import dagster as dg\n\n{imports}\n\n\n{functions}"


def _python(value: Any) -> str:
    """A value of YAML as Python code; an asset becomes a `dg.AssetSpec`."""
    match value:
        case {"key": str(key)} if "/" in key:
            return f"dg.AssetSpec({json.dumps(key.split('/'))})"
        case _:
            return json.dumps(value)


def as_word(name: str) -> str:
    """A name as a word that SQL and Python take: "Gold tables" as gold_tables, SqlTables as sql_tables."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\W+", "_", name).strip("_").lower()
    return words if words[:1].isalpha() else f"t_{words}"


_STOCK = re.compile(r"(?:\w+\.)?load_from_defs_folder\(path_within_project=Path\(__file__\)\.parent\)")
"""What `create-dagster` has the function of definitions.py return."""
_IMPORT = re.compile(r"^(?:from|import) .*\n", re.MULTILINE)


def complete_definitions(component: Path) -> str | None:
    """Has the definitions.py of a component's project call `incremental`, if the file is as `create-dagster` writes it.

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
