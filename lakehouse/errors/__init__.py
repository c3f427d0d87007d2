"""Every way this package fails.

For users: docs/reference/errors.md.

* LakehouseError
  x DefinitionError             the code location does not load
    - ViewError
  x SetupError                  Spark cannot be started or used here as requested
  x SessionError                the session of a run has ended; the next try has a new session
  x ReadError                   a source cannot be read; nothing was written
    - UnreadableLogError
    - LateGapError
  x WriteError                  a result cannot become the table; nothing was written
    - UncomparedError
    - ExpectationError
    - HistoryError
    - ExtractError
    - TableError
  x CommitError                 rivals kept winning, or the commit may have landed
    - UnsettledError
  x UpkeepError                 a reader cannot be registered, or a table cannot be kept in shape; nothing was changed
  x StaleInputsError            the table is not what the run started from; the step runs again

A class stands for a subject, or for a case that the library itself distinguishes. Each constructor of a class has a
code and builds its message from its arguments, which the error keeps as attributes: what happened, to which table, at
which versions; what is true now; what to do. A definition or a call that is plainly wrong raises a DefinitionError,
ReadError or WriteError with a message alone.
"""

from lakehouse.errors.base import *
from lakehouse.errors.reading import *
from lakehouse.errors.results import *
from lakehouse.errors.setup import *
from lakehouse.errors.table_state import *
from lakehouse.errors.views import *
