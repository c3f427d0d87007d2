"""What to do if an input cannot be read on: sentences for users."""

from lakehouse.errors import FULL_REFRESH, GO_ON_FROM

REFRESH_REMEDY = (
    f"Materialize once with the run tag {FULL_REFRESH}=true: everything is compared, differences are written."
)
HISTORY_REMEDY = (
    "With Table(on_gap='reconcile') the history is compared with its source. Rows that differ end and begin at the "
    "time of the version that is read, and the columns ..._EARLIEST hold the earliest possible time."
)
PAST_REMEDY = "Its past was kept under the former definition: keep that, or write another history to another asset."
PARTIAL_REMEDY = (
    "Its input leaves changes out (Read(start=..., exclude_operations=...)), so it is compared with the whole "
    f"source only on request: the changes left out would come in. To compare it, materialize once with the run tag "
    f"{FULL_REFRESH}=true. If you restore the former definition, the next run continues from its position."
)


def append_remedy(asset: str) -> str:
    return (
        f"An Append cannot take rows back. Name an archive of the source in Read(archive=...), or decide where it goes "
        f"on, by materializing once with the run tag {GO_ON_FROM}{asset}=<a version of the source, or now>: rows of "
        f"later versions are added. Or delete the table and materialize it again."
    )


def lost_remedy(asset: str) -> str:
    return (
        f"An Append cannot take rows back, and nobody knows which rows it has. Restore the table to a version that it "
        f"wrote itself, or decide where it goes on, by materializing once with the run tag {GO_ON_FROM}{asset}=<a "
        f"version of the source, or now>: rows of later versions are added. Or delete the table and materialize it "
        f"again."
    )
