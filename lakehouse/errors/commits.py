"""Commits that were lost, overtaken or left without an answer."""

from lakehouse.errors.base import LakehouseError, clause


class SessionEndedError(LakehouseError, ConnectionError):
    """The Spark session in which a run's inputs were read ended before its result was computed."""

    def __init__(self, asset: str, reason: str) -> None:
        self.asset, self.reason = asset, reason
        super().__init__(
            f"The Spark session in which the inputs of '{asset}' were read has ended: {reason}",
            "Nothing was written. Run it again: the next run reads them in a new session.",
        )


class OtherJarsError(LakehouseError):
    """A jar on Spark's class path needs what is not there; most likely Delta's, made for another version of Spark."""

    def __init__(self, asset: str, reason: str) -> None:
        self.asset, self.reason = asset, reason
        super().__init__(
            f"Spark failed in a run of '{asset}', because a jar on its class path needs what is not there, as where "
            f"Delta's jar is for another version of Spark: {clause(reason)}.",
            "Nothing was written. Give Spark the jar of Delta for its own version (io.delta:delta-spark_4.1_2.13 for "
            "Spark 4.1, say), or the class that is missing.",
        )


class ConflictError(LakehouseError):
    """Rivals kept committing first. Nothing was written."""

    def __init__(self, asset: str, attempts: int, seconds: float, lost_to: str, unread: str, advice: str) -> None:
        self.asset, self.attempts, self.seconds, self.lost_to = asset, attempts, seconds, lost_to
        self.unread, self.advice = unread, advice
        times = "once" if attempts == 1 else f"{attempts} times"
        super().__init__(
            f"'{asset}' lost its commit {times} in {seconds:.1f} s, last to {lost_to}.",
            f"Nothing was written; {unread}. {advice}",
        )


class StaleInputsError(LakehouseError):
    """The table is not what the run started from, so the run needs new inputs."""


class OvertakenError(StaleInputsError):
    """Another run of this asset has committed, and this run still has work to do."""

    def __init__(self, asset: str, run: str, version: int, *, written: int | None = None) -> None:
        self.asset, self.run, self.version, self.written = asset, run, version, written
        now = f"Nothing was written by this run. Run it again: it continues from version {version}."
        if written is not None:
            now = (
                f"Neither run saw the other, and this run committed version {written}: some rows may be out of date, "
                f"or in the table twice. Run it again: the next run writes the rows that differ, or says why it cannot."
            )
        super().__init__(f"Run {run} committed '{asset}' as version {version} while this run was under way.", now)


class RolledBackError(StaleInputsError):
    """The position from which a run began is no longer in its table."""

    def __init__(self, asset: str, version: int | None) -> None:
        self.asset, self.version = asset, version
        now = "is gone" if version is None else f"is at version {version} now"
        super().__init__(
            f"While this run was reading, the table of '{asset}' lost the position from which the run began (it was "
            f"restored, replaced or deleted, or two other runs did not see each other). The table {now}. Anything that "
            f"this run has written does not count. Run it again: the next run finds out what has been read."
        )


class UnsettledError(LakehouseError):
    """A commit is in the table, but a rival committed between the comparison and this commit."""

    def __init__(self, asset: str, version: int, attempts: int, rows: str, problem: str = "") -> None:
        self.asset, self.version, self.attempts, self.rows, self.problem = asset, version, attempts, rows, problem
        times = "once" if attempts == 1 else f"{attempts} times"
        failed = f" The rows could then not be written again: {clause(problem)}." if problem else ""
        super().__init__(
            f"'{asset}' is committed as version {version}, but another writer that committed just before it changed "
            f"{rows}. This happened {times}, so the table may hold rows of that writer instead of this run's.{failed} "
            f"No change is lost: the next run reads the same range again and writes the rows that differ. Keep the two "
            f"writers apart, or run it again."
        )


class UnknownOutcomeError(LakehouseError):
    """The log could not be read to find out whether the commit landed."""

    def __init__(self, asset: str, attempt: str, problem: str) -> None:
        self.asset, self.attempt, self.problem = asset, attempt, problem
        super().__init__(
            f"The commit of '{asset}' did not answer, and its log cannot be read ({clause(problem)}). The commit "
            f"may be in the table: its mark would name attempt {attempt}. Run it again when the log can be read: if "
            f"the commit is there, the run says so and applies nothing twice."
        )
