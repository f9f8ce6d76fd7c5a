"""Wheels of installed packages that no package index has, packed from the files that are imported.

The environment of a logged model is made from a list of requirements. What was installed from a
folder, a repository or a file is found nowhere by its version, so such packages go along with the
model.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import sys
import sysconfig
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path, PurePosixPath

_log = logging.getLogger(__name__)

WHEELS = "wheels"
"""The folder of a model that holds them."""
_MOST_BYTES = 1 << 27  # of a package's files: larger ones hold data, which no model should carry
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that a ZIP file knows: equal files, equal wheels
_COMPILED = (".so", ".pyd", ".dylib")
_METADATA = ("entry_points.txt", "top_level.txt")
_LEVEL = 6
_NO_CODE = {"__pycache__", ".git"}


class _NotPackedError(Exception):
    """Why a package makes no wheel."""


@dataclass(frozen=True)
class Wheel:
    """A wheel in memory.

    Attributes
    ----------
    name : str
        Of the file; the version ends in a local label, the digest of the content, so that it is
        preferred to any other of that version.
    content : bytes
    digest : str
    """

    name: str
    content: bytes
    digest: str

    def write(self, folder: Path) -> str:
        """Write it to a model's folder; returns the option with which pip and uv find it there."""
        place = PurePosixPath(WHEELS, self.digest)
        target = folder / place
        target.mkdir(parents=True)
        (target / self.name).write_bytes(self.content)
        # Unlike a path, it counts from the folder of the requirements file. The digest, because
        # MLflow uses an environment again whose requirements are the same, word for word.
        return f"--find-links={place}"


def wheels_of(packages: Sequence[str]) -> list[Wheel]:
    """Wheels of those packages that came from no index.

    A warning is logged for each that cannot be packed, or not for containers, as the environment
    of the model will not be made then.
    """
    found = []
    for name in packages:
        try:
            dist = _installed(name)
        except PackageNotFoundError:
            continue
        if _is_from_index(dist):
            continue
        try:
            found.append(_wheel(dist))
        except (_NotPackedError, OSError) as error:
            _warn_once(
                f"{name} {dist.version} is not known to be on a package index, and {error}: "
                "environments and containers cannot be made for the models that are logged. "
                "Install it from a wheel, or name one with pip_requirements"
            )
            continue
        if "linux" not in found[-1].name and not found[-1].name.endswith("-any.whl"):
            _warn_once(
                f"models are logged with a wheel of {name} for {sysconfig.get_platform()}, as it "
                "came from no package index: containers for Linux cannot be made from them. Name "
                "a wheel for Linux with pip_requirements"
            )
    return found


def _installed(name: str) -> Distribution:
    """The package as an installer has noted it: a folder of sources may hold metadata, too."""
    noted = (one for one in distributions(name=name) if one.read_text("RECORD") is not None)
    return next(noted, None) or distribution(name)


def _is_from_index(dist: Distribution) -> bool:
    """Whether the package was installed by its name, and is what is imported."""
    if dist.read_text("direct_url.json") is not None or "+" in dist.version:
        return False
    here = {Path(str(dist.locate_file(name))).resolve() for name in _top_level(dist)}
    try:
        return all(Path(root).resolve() in here for _, root in _roots(dist))
    except _NotPackedError:  # a namespace, which is imported from wherever it has parts
        return True


def _wheel(dist: Distribution) -> Wheel:
    found = sorted(_files(dist))
    if not found:
        raise _NotPackedError("none of its files is found")
    states = ((name, path, path.stat()) for name, path in found)
    files = tuple((name, path, state.st_size, state.st_mtime_ns) for name, path, state in states)
    if sum(size for _, _, size, _ in files) > _MOST_BYTES:
        raise _NotPackedError(f"its folder holds more than {_MOST_BYTES:,} bytes")
    return _pack(dist.name, dist.version, files, _tags(dist, [name for name, _ in found]))


@lru_cache(maxsize=8)
def _pack(
    name: str, version: str, files: tuple[tuple[str, Path, int, int], ...], tags: tuple[str, ...]
) -> Wheel:
    """The wheel of files of that size and time of change, made once a process."""
    dist = _installed(name)
    content = {inside: path.read_bytes() for inside, path, *_ in files}
    metadata = dist.read_text("METADATA")
    if metadata is None:
        raise _NotPackedError("it has no METADATA")
    described = {one: text.encode() for one in _METADATA if (text := dist.read_text(one))}
    for one in re.findall(r"^License-File: (.+)", metadata, re.MULTILINE):
        if text := dist.read_text(f"licenses/{one}") or dist.read_text(one):
            described[f"licenses/{one}"] = text.encode()
    digest = hashlib.sha256()
    for part, value in [*content.items(), *described.items(), ("METADATA", metadata.encode())]:
        digest.update(hashlib.sha256(part.encode()).digest() + hashlib.sha256(value).digest())
    short = digest.hexdigest()[:12]
    labelled = f"{version.partition('+')[0]}+w{short}"  # a label of digits alone is changed by pip
    escaped = name.replace("-", "_").replace(".", "_").lower()
    info = f"{escaped}-{labelled}.dist-info"
    changed = re.sub(r"^Version:.*", f"Version: {labelled}", metadata, count=1, flags=re.MULTILINE)
    described["METADATA"] = changed.encode()
    described["WHEEL"] = _wheel_text(tags).encode()
    content |= {f"{info}/{one}": text for one, text in described.items()}
    python, abi, _ = tags[0].split("-")
    platforms = ".".join(dict.fromkeys(tag.split("-")[2] for tag in tags))
    file = f"{escaped}-{labelled}-{python}-{abi}-{platforms}.whl"
    return Wheel(file, _zip(content, f"{info}/RECORD"), short)


def _wheel_text(tags: Sequence[str]) -> str:
    pure = str(tags[0].endswith("-any")).lower()
    lines = ["Wheel-Version: 1.0", "Generator: rankplug", f"Root-Is-Purelib: {pure}"]
    return "\n".join([*lines, *(f"Tag: {tag}" for tag in tags), ""])


def _zip(content: dict[str, bytes], record: str) -> bytes:
    lines = []
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for name, data in content.items():
            sha256 = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={sha256},{len(data)}\n")
            archive.writestr(_member(name), data)
        archive.writestr(_member(record), "".join([*lines, f"{record},,\n"]))
    return stream.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o100644 << 16
    return member


def _tags(dist: Distribution, files: Sequence[str]) -> tuple[str, ...]:
    """The tags of the wheel that was installed; if there was none, those of this machine."""
    compiled = [name for name in files if name.endswith(_COMPILED)]
    if not compiled:
        return ("py3-none-any",)
    lines = (dist.read_text("WHEEL") or "").splitlines()
    own = tuple(line.partition(":")[2].strip() for line in lines if line.startswith("Tag:"))
    if own and not any(tag.endswith("-any") for tag in own):
        return own
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    stable = all(".abi3." in name for name in compiled)
    abi = "abi3" if stable else f"{python}{getattr(sys, 'abiflags', '')}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return (f"{python}-{abi}-{platform}",)


# --- the files of a package ---


def _files(dist: Distribution) -> Iterator[tuple[str, Path]]:
    """Names within the wheel, and where the files are; those that are imported."""
    recorded = _recorded(dist)
    for name, root in _roots(dist):
        place = Path(root)
        if place.is_file():
            yield place.name, place
            continue
        for path in place.rglob("*"):
            inside = path.relative_to(place)
            if path.is_file() and _is_code(inside) and (not recorded or path in recorded):
                yield PurePosixPath(name, *inside.parts).as_posix(), path


def _roots(dist: Distribution) -> Iterator[tuple[str, str]]:
    """The top-level modules, and the folder or file of each."""
    for name in _top_level(dist):
        try:
            spec = find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is None:
            continue
        if spec.origin is None:  # a namespace, whose folders may be those of others, too
            raise _NotPackedError(f"{name} is a namespace")
        yield name, (spec.submodule_search_locations or [spec.origin])[0]


def _top_level(dist: Distribution) -> list[str]:
    """The modules at the top, as the metadata say, or else the entry points."""
    named = (dist.read_text("top_level.txt") or "").split()
    return named or sorted({point.module.partition(".")[0] for point in dist.entry_points})


def _recorded(dist: Distribution) -> set[Path]:
    """The files that were installed, none where what is imported lies elsewhere."""
    files = dist.files or [] if dist.read_text("RECORD") else []
    roots = [Path(root) for _, root in _roots(dist)]
    found = (Path(str(file.locate())) for file in files)
    return {path for path in found if any(path.is_relative_to(root) for root in roots)}


def _is_code(inside: Path) -> bool:
    hidden = any(part in _NO_CODE or part.startswith(".") for part in inside.parts)
    if hidden or inside.suffix in (".pyc", ".pyo", ".c", ".cpp", ".o", ".pyx"):
        return False
    compiled = inside.name.endswith(_COMPILED)
    return not compiled or f".{inside.name.partition('.')[2]}" in EXTENSION_SUFFIXES


@cache
def _warn_once(message: str) -> None:
    _log.warning("%s", message)
