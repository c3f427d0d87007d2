"""Every way this package fails, those of Spark on this machine apart (`lakehouse.server.setup_errors`).

For users: docs/reference/errors.md.

* LakehouseError
  x DefinitionError             the code location does not load
    - MissingKeyError
    - UnsupportedAnnotationError
    - PartitionColumnError
  x ReadError                   nothing was written
    - PartitionRangeError
    - SourceMissingError
    - ColumnMissingError
    - ChangeFeedDisabledError
    - NotAppendOnlyError
    - GapError
    - LateGapError
    - StartError
    - MissingFileError
    - SourceDeniedError
    x UnreadableLogError
      - UnknownFeatureError
    - NewerMarkError
    - ViewError
  x WriteError                  nothing was written
    - LostChangesError
    - TruncatesMissingError
    - EventOptionError
    - BrokenPromiseError
      x BadEventError
    - SchemaError
    - NewColumnsError
    - PlanError
    - ModuleMissingError
    - ComputeError
    - UnexplainedError
    - DeltaRefusedError
    - UnsafeTableError
    - IsolationLevelError
    - PastRefusedError
    - RefreshRefusedError
    - UnknownExtractError
    - OlderExtractError
    - EmptyExtractError
    - OutOfScopeError
    - DeletionsHeldBackError
    - RestateRefusedError
    - TrackChangedError
    - ForeignTableError
    - UnregisteredTableError
    - OtherFileSystemError
    - SecondDriverError
    - ForeignApplicationIdError
  x SessionEndedError           nothing was written; the next try has a new session
  x OtherJarsError              nothing was written; Delta's jar is for another version of Spark
  x ConflictError               nothing was written; rivals kept winning
  x StaleInputsError            the table is not what the run started from; the step runs again
    - OvertakenError
    - RolledBackError
  x UnsettledError              it is written, perhaps with rows of a rival, until the next run
  x UnknownOutcomeError         the commit may have landed; look before running again

Each of them takes data, keeps it as attributes and builds its own sentence: what happened, to which table, at which
versions; what is true now; what to do. A definition or a call that is plainly wrong is a DefinitionError, ReadError or
WriteError with a sentence.
"""

from lakehouse.errors.base import *
from lakehouse.errors.reading import *
from lakehouse.errors.results import *
from lakehouse.errors.table_state import *
