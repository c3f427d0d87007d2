"""What is decided for all inputs of a run together, and what a table allows: from values alone, without a source."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lakehouse.cursor.cursor import Cursor, Fresh, Known, Lost
from lakehouse.cursor.definition import partial_sources, why_handed_otherwise, why_redefined
from lakehouse.cursor.digests import QueryDigest
from lakehouse.cursor.mark import Mark
from lakehouse.delta.limits import limits
from lakehouse.delta.log import BRANCH_READER, NOTHING_READ, READER, Head
from lakehouse.delta.policy import Policy, Refresh
from lakehouse.delta.table import Read, Table
from lakehouse.errors import ALLOW, FULL_REFRESH, GO_ON_FROM, ReadError, WriteError
from lakehouse.read.asset import UNREAD, Asset, PastRows, UserRequest

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


STRICT_REMEDY = (
    f"Its policy is refresh='strict', so everything is compared on request alone: materialize once with the run tag "
    f"{FULL_REFRESH}=true."
)


def strict_remedy(asset: Asset) -> str:
    """What to do if everything would have to be compared, and the policy forbids that."""
    if asset.past is not PastRows.KEPT:
        return STRICT_REMEDY
    return (
        f"Its policy is refresh='strict', so a history is compared with its source on request alone: materialize once "
        f"with the run tag {GO_ON_FROM}{asset.name}=now."
    )


def append_remedy(asset: str, *, is_lost: bool = False) -> str:
    """What to do if an `Append` cannot continue from its position; `is_lost`: it is not known which rows it has."""
    other = "and it is not known which rows it has. Restore the table to a version that it wrote itself"
    begin = f"rows back, {other}" if is_lost else "rows back. Name an archive of the source in Read(archive=...)"
    return (
        f"An Append cannot take {begin}, or decide where it goes on, by materializing once with the run tag "
        f"{GO_ON_FROM}{asset}=<a version of the source, or now>: rows of later versions are added. Or delete the table "
        f"and materialize it again."
    )


@dataclass(frozen=True, slots=True)
class Reconcile:
    """The whole source is read; the result is compared with the table, or replaces it.

    Args:
        reason: Why, as a clause.
        on_request: Whether a user asks for it.
        for_cost: Whether the changes could be read instead, but that would take more work.
    """

    reason: str
    on_request: bool = False
    for_cost: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """Nothing is read: the missing changes cannot be read, and the table may not be compared.

    Args:
        reason: Why, as the second half of a sentence.
        remedy: What to do, as a sentence.
        after: How far the table has read the source; `NOTHING_READ` if that is not known.
    """

    reason: str
    remedy: str
    after: int = NOTHING_READ


def decision_for_all(
    asset: Asset, cursor: Cursor, definition: Mapping[str, str], request: Reconcile | None
) -> Reconcile | Refuse | None:
    """The decision for all inputs together; None if each input continues from its own position."""
    if request is not None or not asset.incremental:
        return request
    match cursor:
        case Lost(reason=reason):
            return decision_by_policy(asset, _decision_without_position(asset, reason))
        case Known(mark=mark):
            reason = _why_redefined(asset, mark, definition)
            if reason is not None:
                return decision_by_policy(asset, _decision_for_other_definition(asset, reason))
            by_policy = Reconcile("its policy is refresh='full'") if computes_everything(asset) else None
            return _comparison_of_new_code(asset, mark, definition) or by_policy
        case Fresh():
            return None


def decision_by_policy(asset: Asset, decision: Reconcile | Refuse) -> Reconcile | Refuse:
    """The decision, or a refusal if no user asked for the comparison and the policy requires that."""
    match decision:
        case Reconcile(reason=reason, on_request=False) if asset.policy.chosen_refresh == "strict":
            return Refuse(reason, strict_remedy(asset))
        case Reconcile() | Refuse():
            return decision


class NeedOfAllRows(Enum):
    """Why a write that goes by keys would compute all rows."""

    ASKED = "a user asks for it"
    BEGINNING = "no row is there to go on from: a first read, or an empty table"
    NO_SOURCE = "no source is followed"
    READ = "the changes of a source cannot be read, or were made under another definition"
    PLAN = "keys alone do not tell which rows differ, or all of a source is read to find them or their rows"
    SOME_KEYS = "these keys need all of a source: NULL or a constant is among them, or their rows leave a LIMIT"
    COST = "most of the rows are touched"


class PolicyAnswer(Enum):
    """What a policy decides about computing all rows."""

    COMPUTED = "all rows are computed"
    WARNED = "all rows are computed, and the log of the run warns of that"
    BY_KEYS = "the rows of touched keys are computed instead"
    REFUSED = "the run is refused"


def answer_by_policy(need: NeedOfAllRows, refresh: Refresh) -> PolicyAnswer:
    """What becomes of a run that would compute all rows."""
    match need:
        case NeedOfAllRows.ASKED | NeedOfAllRows.BEGINNING | NeedOfAllRows.NO_SOURCE:
            return PolicyAnswer.COMPUTED
        case NeedOfAllRows.READ | NeedOfAllRows.PLAN:
            return _OF_NO_CHOICE[refresh]
        case NeedOfAllRows.SOME_KEYS:
            return _OF_SOME_KEYS[refresh]
        case NeedOfAllRows.COST:
            return _OF_COST[refresh]


_OF_NO_CHOICE: Mapping[Refresh, PolicyAnswer] = {
    "auto": PolicyAnswer.COMPUTED,
    "incremental": PolicyAnswer.WARNED,
    "strict": PolicyAnswer.REFUSED,
    "full": PolicyAnswer.COMPUTED,
}
_OF_SOME_KEYS: Mapping[Refresh, PolicyAnswer] = {
    "auto": PolicyAnswer.COMPUTED,
    "incremental": PolicyAnswer.WARNED,
    "strict": PolicyAnswer.WARNED,
    "full": PolicyAnswer.COMPUTED,
}
_OF_COST: Mapping[Refresh, PolicyAnswer] = {
    "auto": PolicyAnswer.COMPUTED,
    "incremental": PolicyAnswer.BY_KEYS,
    "strict": PolicyAnswer.BY_KEYS,
    "full": PolicyAnswer.COMPUTED,
}


def may_replace(asset: Asset, head: Head | None) -> bool:
    """Whether all rows may replace a table: no policy limits how many rows change, and no reader needs each change."""
    names = () if head is None else (name for name in head.properties if name.startswith(READER))
    has_readers = not all(name.startswith(READER + BRANCH_READER) for name in names)
    return asset.policy.max_changed is None and not asset.changes_are_kept and not has_readers


def replaces_all_rows(need: NeedOfAllRows, asset: Asset, head: Head | None, table_rows: int | None) -> bool:
    """Whether a table is replaced by all rows of its result, because to compare the two would cost more.

    A comparison costs little if the table has few rows.

    Args:
        need: Why all rows are computed. Only `COST` implies that many rows differ.
        asset: The asset.
        head: Where the table stands.
        table_rows: About how many rows the table holds; None if that is not known.
    """
    is_large = table_rows is not None and table_rows > limits().compared_rows
    return need is NeedOfAllRows.COST and is_large and may_replace(asset, head)


def computes_everything(asset: Asset) -> bool:
    """Whether each run reads everything, because the policy says so.

    Never for rows that cannot be computed again: rows of the past, or of an input that leaves rows of its source out.
    """
    is_whole = all(read.is_whole for read in asset.read_options.values())
    return asset.policy.chosen_refresh == "full" and is_whole and not asset.past.is_final


def _decision_without_position(asset: Asset, reason: str) -> Reconcile | Refuse:
    """The decision for a table whose marks do not show what it has read."""
    if asset.past is PastRows.APPENDED:
        return Refuse(reason, append_remedy(asset.name, is_lost=True))
    return Reconcile(reason) if asset.table.on_gap == "reconcile" else Refuse(reason, remedy(asset, Read()))


def _decision_for_other_definition(asset: Asset, reason: str) -> Reconcile | Refuse:
    """The decision for a table whose rows were written under another definition."""
    match asset.past:
        case PastRows.COMPUTED | PastRows.DELIVERED:
            return Reconcile(reason)
        case PastRows.APPENDED:
            return Refuse(reason, append_remedy(asset.name))
        case PastRows.KEPT:
            return Refuse(reason, PAST_REMEDY)


def compares_new_code(asset: Asset, *, leaves_rows_out: bool) -> bool:
    """Whether everything is compared if the code of the asset's function has changed."""
    keeps_rows = asset.past.is_final or leaves_rows_out or asset.policy.chosen_refresh == "strict"
    return asset.incremental and asset.policy.new_code == "compare" and not keeps_rows


def warning_of_new_code(
    asset: Asset, cursor: Cursor, definition: Mapping[str, str], together: Reconcile | Refuse | None
) -> str | None:
    """The warning that code, or what is passed to it, changed although nothing is compared because of that; else None.

    The code of a `View` whose new code is compared does not count: `why_other_query` compares its query with the mark.
    """
    if together is not None or not asset.incremental or not isinstance(cursor, Known):
        return None
    if asset.has_query and asset.policy.new_code == "compare":
        before = cursor.mark.definition or {}
        why = why_handed_otherwise(before, definition, asset.policy.ignored_config)
    else:
        why = _why_new_code(asset, cursor.mark, definition)
    if why is None:
        return None
    if asset.past.is_final:
        cause = f"{'an Append' if asset.past is PastRows.APPENDED else 'a History'} keeps the rows that it wrote"
    elif partial_sources(definition):
        cause = "an input leaves rows of its source out, so they cannot be computed again"
    elif asset.policy.new_code == "warn":
        cause = "its policy is on_new_code='warn'"
    else:
        cause = "its policy is refresh='strict'"
    return f"{asset.name} goes on although {why}. Its rows stay as they were made before: {cause}."


def refuse_request(asset: Asset, request: UserRequest, partitions: tuple[str, ...]) -> None:
    """Refuses what no run of the asset can do.

    Raises:
        ReadError: Several partitions of an asset that reads changes.
        WriteError (REFRESH_REFUSED): A full refresh of a history, or of a table that is kept from extracts.
    """
    if asset.incremental and len(partitions) > 1:
        # Each partition has a position of its own, so a run of several could not continue from one position.
        raise ReadError(
            f"'{asset.name}' reads Changes, and each of its partitions has a position of its own, so one run cannot "
            f"write {len(partitions)} of them ({partitions[0]} to {partitions[-1]}).",
            "Nothing was written. Backfill it with one run per partition: leave backfill_policy out, or give "
            "dg.BackfillPolicy.multi_run().",
        )
    if request.compare is None:
        return
    match asset.past:
        case PastRows.KEPT:
            start_over = "deliver its extracts again, the oldest first"
            if asset.incremental:
                start_over = "materialize it: its first read goes back as far as the source's own history"
            why = "would replace the past that it keeps by what its source still tells"
            raise WriteError.refresh_refused(asset.name, why, f"To start over, delete the table and {start_over}.")
        case PastRows.DELIVERED:
            why = "would add nothing, because each run compares its extract with the whole table"
            remedy = "which takes the extract whatever the table holds"
            wrong = f"If the table or its version is wrong, give the run tag {ALLOW}{asset.name}=version, {remedy}."
            raise WriteError.refresh_refused(asset.name, why, wrong)
        case PastRows.COMPUTED | PastRows.APPENDED:
            return


def comparison_by(asset: Asset, request: UserRequest) -> Reconcile | None:
    """The comparison of everything that a user asks for; None if no user does.

    A history goes on from now by a comparison: it takes the present rows of its source, and no earlier change.
    """
    if request.compare is not None:
        return Reconcile(request.compare, on_request=True)
    if request.thaw not in (None, UNREAD):
        return Reconcile(f"a run tag thaws {request.thaw}", on_request=True)
    if asset.past is PastRows.KEPT and request.go_on_from is not None:
        return Reconcile("a run tag has the history go on from its source as it is now", on_request=True)
    return None


def recomputes(asset: Asset, read: Read) -> bool:
    """Whether the table has to equal a recompute from the whole source.

    It need not if the table only appends, or if the input leaves changes out.
    """
    return asset.past.is_comparable and read.is_whole


def may_compare(past: PastRows, table: Table, read: Read, policy: Policy) -> bool:
    """Whether everything may be compared although no user asked for it, if an input cannot continue."""
    may = table.on_gap == "reconcile" and policy.chosen_refresh != "strict"
    return past.is_comparable and read.is_whole and may


def remedy(asset: Asset, read: Read) -> str:
    """What to do if an input cannot continue from its position and may not be compared."""
    if asset.policy.chosen_refresh == "strict" and asset.past.is_comparable and read.is_whole:
        return strict_remedy(asset)
    match asset.past:
        case PastRows.APPENDED:
            return append_remedy(asset.name)
        case PastRows.KEPT:
            return HISTORY_REMEDY
        case PastRows.COMPUTED | PastRows.DELIVERED:
            return REFRESH_REMEDY if read.is_whole else PARTIAL_REMEDY


def _why_redefined(asset: Asset, mark: Mark, definition: Mapping[str, str]) -> str | None:
    if mark.code_version != asset.code_version and not asset.past.is_final:
        return f"the asset's code version is now {asset.code_version} and was {mark.code_version}"
    if mark.definition is None:
        return None  # an earlier version wrote the mark without one, and is believed once
    has_keys = asset.past.is_comparable
    return why_redefined(mark.definition, definition, has_keys=has_keys, ignored=asset.policy.ignored_config)


def _why_new_code(asset: Asset, mark: Mark, definition: Mapping[str, str]) -> str | None:
    """Why the code, or what a run passes to it, differs from a mark; None if it does not, or if code does not count.

    A given code version stands for the code, but not for what is passed to it.
    """
    why = asset.why_new_code(mark)
    if why is not None or asset.policy.new_code == "ignore" or mark.definition is None:
        return why
    return why_handed_otherwise(mark.definition, definition, asset.policy.ignored_config)


def why_other_query(asset: Asset, cursor: Cursor, query: QueryDigest) -> str | None:
    """Why the rows of the position are those of another query, as a clause; None if they are not.

    A given code version stands for the text of the query, but not for the columns of the tables that the text names.
    """
    text_counts = asset.code_version is None and asset.policy.new_code == "compare"
    return query.why_other(cursor.mark.query, text_counts=text_counts) if isinstance(cursor, Known) else None


def _comparison_of_new_code(asset: Asset, mark: Mark, definition: Mapping[str, str]) -> Reconcile | None:
    """The comparison after a change of the code. A digest proves less than a code version, so it refuses no run."""
    why = _why_new_code(asset, mark, definition)
    if why is None or not compares_new_code(asset, leaves_rows_out=bool(partial_sources(definition))):
        return None
    return Reconcile(why)
