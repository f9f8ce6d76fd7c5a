"""``python -m tests.long.fuzz``: run the fuzzing targets, one process after the other.

Nothing of rankplug is imported here, so that a target's process can instrument it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
TARGETS = (
    "svmlight", "csv_table", "encodings", "companions", "recipe", "model", "prepared", "exchange",
)  # fmt: skip
INSTRUMENTED = ["rankplug", "rankplug_plugins"]
MEMORY = 3 << 30  # bytes that an input may take; all inputs are small
SECONDS = 120  # that one input may take; a machine may be busy
RAM_FOLDER = Path("/dev/shm")
DONE = "all executions done\n"
CHILD = (
    "import sys; from pathlib import Path; from tests.long.fuzz.__main__ import fuzz; "
    "fuzz(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])"
)


def main() -> int:
    """Run the chosen targets; 1 if an input of any of them was not handled."""
    parser = argparse.ArgumentParser(prog="python -m tests.long.fuzz", description=__doc__)
    parser.add_argument("targets", metavar="TARGET", nargs="*", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--runs", type=int, default=1_000_000, help="executions of each")
    parser.add_argument("--seed", type=int, default=1, help="of the random mutations")
    parser.add_argument("--keep", type=Path, help="folder for logs and new inputs")
    parser.add_argument("--artifacts", type=Path, default=Path(), help="folder for inputs at fault")
    args = parser.parse_args()
    if unknown := set(args.targets) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}")
    if importlib.util.find_spec("atheris") is None:
        print("fuzzing needs atheris: pip install -e '.[fuzz]'", file=sys.stderr)
        return 1
    return max([run(target, args) for target in args.targets or TARGETS])


def run(target: str, args: argparse.Namespace) -> int:
    """Fuzz one target in a process of its own, and say how it ended."""
    ram = RAM_FOLDER if RAM_FOLDER.is_dir() else None
    with tempfile.TemporaryDirectory(dir=ram) as name:
        folder = Path(name)
        found = (args.keep or folder) / target
        found.mkdir(parents=True, exist_ok=True)
        log = (args.keep or folder) / f"{target}.log"
        options = [f"-seed={args.seed}", f"-artifact_prefix={args.artifacts.absolute()}/{target}-"]
        folders = [str(found), str(HERE / "corpus" / target)]
        start = time.monotonic()
        with log.open("w") as stream:
            process = subprocess.run(
                [sys.executable, "-c", CHILD, target, str(args.runs), name, *options, *folders],
                cwd=HERE.parents[2],
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        seconds = time.monotonic() - start
        end = log.read_text(errors="replace")[-10_000:]
    done = process.returncode == 0 and end.endswith(DONE)
    if not done:
        print(end)
    result = f"{args.runs:,} executions without a crash" if done else "CRASH"
    print(f"{target}: {result} in {seconds:.0f} s", flush=True)
    return int(not done)


def fuzz(target: str, runs: int, folder: Path, options: list[str]) -> None:
    """Be the process that fuzzes; it ends when libFuzzer has found a fault, or after the runs."""
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED):
        module = importlib.import_module(f"tests.long.fuzz.{target}")
    if hasattr(module, "before"):
        module.before()
    limit_memory()
    tokens = folder / "tokens"
    tokens.write_text("".join(f'"{escaped(token)}"\n' for token in module.TOKENS))
    inputs = folder / "inputs"
    inputs.mkdir()
    executions = 0

    def execute(data: bytes) -> None:
        nonlocal executions
        module.check(bytes(data), inputs)
        executions += 1
        if executions == runs:
            print(DONE, end="", flush=True)
            # libFuzzer's own end holds the interpreter's lock, for which Arrow's threads wait.
            os._exit(0)

    limits = [f"-max_len={module.MAX_LENGTH}", f"-timeout={SECONDS}", "-rss_limit_mb=0"]
    atheris.Setup([sys.argv[0], *options, *limits, f"-dict={tokens}"], execute)
    atheris.Fuzz()


def limit_memory() -> None:
    """Make a huge allocation fail instead of succeed lazily."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def escaped(token: bytes) -> str:
    """A token as libFuzzer's dictionaries write it."""
    return "".join(f"\\x{byte:02x}" for byte in token)


if __name__ == "__main__":
    sys.exit(main())
