"""Forge recipes at random, and count what the commands make of them.

``python -m tests.long.mutate_recipes --recipes 10000 --seed 1``: each is one of those that come
with rankplug, or a short one, changed as text or in its structure, beside ``--set`` with such
values. A command reads it as from the command line, up to the point where solvers would start, in
a process with bounded memory. Right is the exit status 2 with one message of bounded length, or a
recipe that would run; everything else is printed and counted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from tests.long.mutate_models import NUMBERS, mutate_value
from tests.long.workers import attack_all, is_harm, limit_memory, sum_up

MEMORY = 2 << 30  # bytes beyond those of the process at its start
SECONDS = 60  # for one recipe; a machine may be busy
MOST_CPU_SECONDS = 10  # one of 1 MB takes about three
LONGEST = 20_000  # characters of messages
SHORT = (
    "data: {dataset: wine}\nsolvers: [tree-tron]\n",
    "data: searches.csv\nsolvers: [tree-tron, xgboost-pairwise]\nfeatures: auto\n",
    "data: {file: searches.csv, split: {test: 0.2}, label: a, qid: b}\nsolvers: [tree-tron]\n",
)
PIECES = (
    "!!python/object:os.system", "!!seq", "!!map", "!!str x", "&a [*a]", "<<: *a", "{" * 3000,
    "[" * 3000, '"\\U00110000"', '"\\ud800"', "\x00", "\ufeff", "é" * 1000, "---\n", "...\n", "? ",
    "- - - -", "1e999", ".nan", ".inf", "0x" + "f" * 300, "9" * 5000, "2026-11-29", "~", "|\n",
    ">\n", "\t", "\r", "%YAML 9.9\n", "a: b: c", "on", "\u2028", "../../etc/passwd",
    "/dev/zero", "runs:/x",
)  # fmt: skip
KEYS = ("data", "metrics", "solvers", "tune.n_trials", "tune", "name", "seed", "scale", "compare")
KEYS += ("solvers.tree-tron.params.C", "solvers.0", "data.train", "", ".", "a..b", "tune.space.C")
COMMANDS = ("run", "train", "tune", "compare")


def originals() -> list[str]:
    """The recipes that come along, and short ones."""
    from rankplug_recipes import packaged_recipes

    return [*(file.read_text() for file in packaged_recipes().values()), *SHORT]


def mutate(texts: list[str], random_: random.Random) -> bytes:
    """A recipe that may be none any more."""
    text = random_.choice(texts)
    for _ in range(random_.choice((1, 1, 2, 3))):
        if random_.random() < 0.5:
            try:
                content = mutate_value(yaml.safe_load(text), random_)
                text = yaml.safe_dump(content, allow_unicode=random_.random() < 0.5)
            except Exception:  # no YAML any more, or nothing that YAML can say
                text = _change_text(text, random_)
        else:
            text = _change_text(text, random_)
    content = text.encode("utf-8", errors="surrogatepass")
    if random_.random() < 0.03:
        place = random_.randrange(len(content) + 1)
        content = content[:place] + bytes([random_.randrange(128, 256)]) + content[place:]
    if random_.random() < 0.005:
        content += b"# more\n" * random_.choice((10**5, 2 * 10**6))
    return content


def _change_text(text: str, random_: random.Random) -> str:
    lines = text.split("\n")
    place = random_.randrange(len(lines))
    change = random_.random()
    if change < 0.2:
        lines[place] = lines[place] + random_.choice(PIECES)
    elif change < 0.4:
        key, sign, _ = lines[place].partition(":")
        value = random_.choice((*PIECES, *map(str, NUMBERS[:-2])))
        lines[place] = f"{key}{sign} {value}"
    elif change < 0.55:
        lines.insert(place, random_.choice(PIECES))
    elif change < 0.7:
        lines.insert(place, random_.choice(lines))
    elif change < 0.8:
        lines[place] = random_.choice((" ", "  ", "\t")) + lines[place]
    elif change < 0.9:
        del lines[place]
    elif change < 0.92:
        lines = lines * random_.choice((2, 1000))
    else:
        text = "\n".join(lines)
        return text[: random_.randrange(len(text) + 1)]
    return "\n".join(lines)


def settings(random_: random.Random) -> list[str]:
    """Sometimes an assignment or two."""
    result = []
    while random_.random() < 0.3:
        value = random_.choice((*PIECES, *map(str, NUMBERS[:-2])))
        sign = random_.choice(("=", "=", "=", "", "=="))
        result += ["--set", f"{random_.choice(KEYS)}{sign}{value}".replace("\x00", "?")]
    return result


def attempt(file: Path, arguments: list[str]) -> str:
    """Give a recipe to the command; what happened in a word."""
    from rankplug.cli import main

    told = io.StringIO()
    started = time.process_time()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
            status = main([arguments[0], str(file), *arguments[1:]])
    except _Runs:
        return "would run"
    except SystemExit as error:
        return "usage" if error.code == 2 else f"EXIT {error.code}"
    except MemoryError:
        return "MEMORY: " + traceback.format_exc()
    except BaseException:
        return "RAW: " + traceback.format_exc()
    text = told.getvalue()
    if time.process_time() - started > MOST_CPU_SECONDS:
        return f"SLOW: {time.process_time() - started:.0f} s of CPU"
    if status != 2 or not text.startswith("error: ") or "Traceback" in text:
        return f"STATUS {status}: {text[:1000]}"
    return f"LONG: {len(text)}" if len(text) > LONGEST else "refused"


class _Runs(BaseException):
    """Solvers would start."""


def _run_nothing(*_: Any, **__: Any) -> None:
    raise _Runs


def work(folder: Path, seed: int, first: int, last: int, pipe: Any) -> None:
    """Be a process that gives the command one recipe after the other."""
    import rankplug.mlflow.tracking
    import rankplug.runner

    rankplug.runner.run = _run_nothing
    limit_memory(MEMORY)
    texts = originals()
    for number in range(first, last):
        random_ = random.Random(f"{seed}/{number}")
        file = folder / "recipe.yaml"
        file.write_bytes(mutate(texts, random_))
        arguments = [random_.choice(COMMANDS), "--output", str(folder / "out"), *settings(random_)]
        pipe.send((number, None))
        pipe.send((number, attempt(file, arguments)))
    pipe.close()


def run(folder: Path, seed: int, n_recipes: int, keep: Path | None) -> Counter[str]:
    """Try so many recipes; a process that one of them ends is replaced by another."""
    counts: Counter[str] = Counter()
    for number, said in attack_all(work, (folder, seed), n_recipes, SECONDS):
        counts[said.partition(":")[0]] += 1
        if is_harm(said):
            print(f"{seed}-{number}: {said}", flush=True)
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}-{number}.yaml").write_bytes((folder / "recipe.yaml").read_bytes())
    return counts


def main() -> int:
    """Try recipes; 1 if any of them did harm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipes", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for recipes that do harm")
    args = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        counts = run(Path(name), args.seed, args.recipes, args.keep)
    return min(sum_up(f"recipes, seed {args.seed}", counts, started), 1)


if __name__ == "__main__":
    sys.exit(main())
