"""The program: the script ``rankplug``, and ``python -m rankplug``."""

import signal
import sys


def main() -> int:
    """Run the command of the command line; returns its exit status.

    Until the commands have loaded there is nothing to clean up, and Ctrl-C ends the process as
    SIGTERM does: an exception would be lost where imports call back for weak references.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rankplug import cli

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
