from pathlib import Path

import dagster as dg

from lakehouse import incremental


@dg.definitions
def defs() -> dg.Definitions:
    return incremental(dg.load_from_defs_folder(path_within_project=Path(__file__).parent))
