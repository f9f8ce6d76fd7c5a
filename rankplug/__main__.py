"""``python -m rankplug``: the command line."""

import sys

from rankplug.cli import main

sys.exit(main())
