"""`python -m lakehouse`: the command `lakehouse`."""

import sys

from lakehouse.cli.main import main

sys.exit(main())
