"""Files in any compression, encoding and with any line ends are read whole, or named."""

import base64
import bz2
import codecs
import gzip
import io
import lzma
import os
import tarfile
import zipfile

import numpy as np
import pyarrow as pa
import pytest

from rankplug import prepare, read_data
from rankplug.exceptions import DataError
from rankplug.io import write_data
from rankplug.io.batches import read_batches
from rankplug.io.compression import START_BYTES

N_ROWS = 3000
TEXT = {
    "txt": "".join(f"{i % 3} qid:{i // 10} 1:{i * 0.5} 2:{i + 1} # é{i}\n" for i in range(N_ROWS)),
    "csv": "label,qid,a,b\n"
    + "".join(f"{i % 3},{i // 10},{i * 0.5},{i + 1}\n" for i in range(N_ROWS)),
}


def zstd(content):
    return pa.compress(content, codec="zstd", asbytes=True)


# Its directory lists a file whose name is empty.
NAMELESS = base64.b64decode(
    "UEsDBBQAAAAAAFYNfV1EnZ81GAAAABgAAAAFAAAAYS5jc3ZsYWJlbCxxaWQsYQoxLDEsMgowLDEsMwpQSwECJAMUAAAA"
    "AABWDX1dRJ2fNRgAAAAYAAAABQAAAAAAAAAAAAAAgAIAAAAAAAAAc3ZQSwUGAAAAAAEAAQAzAAAAOwAAAAAA"
)


def zipped(content, *names):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, content)
    return stream.getvalue()


def encrypted(archive):
    """The archive with the mark of a member that needs a password."""
    place = archive.index(b"PK\x01\x02") + 8
    return archive[:place] + b"\x01" + archive[place + 1 :]


def tarred(content):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        info = tarfile.TarInfo("data.csv")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def mixed(text):
    """Line ends of three systems, the newest first."""
    first, second, *others = text.splitlines()
    return f"{first}\n{second}\r\n" + "\r".join(others) + "\r"


READ = {
    "gz": lambda text, _: gzip.compress(text.encode()),
    "bz2": lambda text, _: bz2.compress(text.encode()),
    "xz": lambda text, _: lzma.compress(text.encode()),
    "lzma": lambda text, _: lzma.compress(text.encode(), format=lzma.FORMAT_ALONE),
    "zst": lambda text, _: zstd(text.encode()),
    "zst in two": lambda text, _: zstd(text[:999].encode()) + zstd(text[999:].encode()),
    "zst that skips": lambda text, _: b"\x50\x2a\x4d\x18\x01\x00\x00\x00x" + zstd(text.encode()),
    "zip": lambda text, ending: zipped(text.encode(), f"data.{ending}"),
    "zip of macOS": lambda text, ending: zipped(text.encode(), f"d.{ending}", "__MACOSX/._d"),
    "mark": lambda text, _: codecs.BOM_UTF8 + text.encode(),
    "utf-16": lambda text, _: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "utf-16 big": lambda text, _: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    "utf-32": lambda text, _: codecs.BOM_UTF32_LE + text.encode("utf-32-le"),
    "utf-16 in gz": lambda text, _: gzip.compress(text.encode("utf-16")),
    "windows": lambda text, _: text.replace("\n", "\r\n").encode(),
    "twice converted": lambda text, _: text.replace("\n", "\r\r\n").encode(),
    "old mac": lambda text, _: text.replace("\n", "\r").encode(),
    "old mac in utf-16": lambda text, _: text.replace("\n", "\r").encode("utf-16"),
    "old mac in zst": lambda text, _: zstd(text.replace("\n", "\r").encode()),
    "mixed": lambda text, _: mixed(text).encode(),
}
NAMED = {
    "utf-16 without mark": (lambda text: text.encode("utf-16-le"), "looks like UTF-16LE text"),
    "big without mark": (lambda text: text.encode("utf-16-be"), "looks like UTF-16BE text"),
    "half utf-16": (lambda text: text.encode("utf-16")[:-1], "not valid UTF-16 text"),
    "tar": (lambda text: tarred(text.encode()), r"tar archive: unpack it .* \(tar -xf\)"),
    "tar.gz": (lambda text: gzip.compress(tarred(text.encode())), "tar archive"),
    "zip of two": (
        lambda text: zipped(text.encode(), "a", "b"),
        "ZIP archive of 2 files .'a', 'b'., not of one: unpack it",
    ),
    "zip of none": (lambda text: zipped(b""), "ZIP archive of no file"),
    "encrypted zip": (
        lambda text: encrypted(zipped(text.encode(), "a.csv")),
        "is an encrypted ZIP archive: unpack it",
    ),
    "xlsx": (
        lambda text: zipped(b"", "[Content_Types].xml", "xl/workbook.xml"),
        "is an Excel workbook: save its table as CSV",
    ),
    "xls": (lambda text: b"\xd0\xcf\x11\xe0" + bytes(500), "is an Excel workbook"),
    "npy": (lambda text: b"\x93NUMPY\x01\x00" + bytes(500), "is a NumPy array"),
    "7z": (lambda text: b"7z\xbc\xaf\x27\x1c\x00" + bytes(500), "is a 7-Zip archive: unpack it"),
    "lz4": (lambda text: b"\x04\x22\x4d\x18" + bytes(500), "compressed by LZ4"),
    "zeros": (lambda text: text[:50].encode() + b"\x00" + text[50:].encode(), "is no text"),
    "half zst": (lambda text: zstd(text.encode())[:-4], "is damaged or incomplete"),
    "no zst": (lambda text: b"\x28\xb5\x2f\xfd" + text.encode(), "is damaged or incomplete"),
    "zip without a name": (lambda _: NAMELESS, "is damaged or incomplete"),
    "half zip": (lambda text: zipped(text.encode(), "a.csv")[:-9], "is damaged or incomplete"),
}


def whole(path):
    data = read_data(path)
    return data.X, data.qid


def prepared(path):
    data = prepare(path, path.parent / "folder", progress=False).data()
    return data.X, data.qid


def in_batches(path):
    found = list(read_batches(path, n_features=2, batch_rows=700))
    ids = np.concatenate([batch.qid for batch in found]).astype(np.int64)
    return np.concatenate([batch.X[:, -2:] for batch in found]), ids


WAYS = [whole, prepared, in_batches]


@pytest.mark.parametrize("read", WAYS)
@pytest.mark.parametrize("ending", TEXT)
@pytest.mark.parametrize("kind", READ)
def test_every_row_is_read(tmp_path, kind, ending, read):
    file = tmp_path / f"data.{ending}"
    file.write_bytes(READ[kind](TEXT[ending], ending))
    X, qid = read(file)
    i = np.arange(N_ROWS)
    np.testing.assert_array_equal(X, np.column_stack([i * 0.5, i + 1.0]))
    np.testing.assert_array_equal(qid, i // 10)


@pytest.mark.parametrize("read", WAYS)
@pytest.mark.parametrize("ending", TEXT)
@pytest.mark.parametrize("kind", NAMED)
def test_what_is_not_read_is_named(tmp_path, kind, ending, read):
    make, message = NAMED[kind]
    file = tmp_path / f"data.{ending}"
    file.write_bytes(make(TEXT[ending]))
    with pytest.raises(DataError, match=message) as caught:
        read(file)
    assert str(caught.value).startswith(str(file))


def test_lines_are_counted_whatever_ends_them(tmp_path):
    for end, encoding in (("\r", "utf-8"), ("\n", "utf-16"), ("\r\n", "utf-16")):
        file = tmp_path / "data.txt"
        file.write_bytes(end.join(["1 1:2", "", "0 1:x", ""]).encode(encoding))
        with pytest.raises(DataError, match="line 3: feature 1: 'x' is not a number"):
            read_data(file)
        table = tmp_path / "data.csv"
        table.write_bytes(end.join(["label,a", "1,2", "0,x", ""]).encode(encoding))
        with pytest.raises(DataError, match="line 3, column 'a': 'x' is not a number"):
            read_data(table)


@pytest.mark.parametrize("end", [b"\r", b"\r\n", b"\n"])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_line_ends_are_known_at_the_edge_of_a_block(tmp_path, end, more):
    first = b"#".ljust(START_BYTES - 1 + more, b"x")
    (tmp_path / "data.txt").write_bytes(end.join([first, b"1 1:2", b"0 1:3", b""]))
    assert read_data(tmp_path / "data.txt").X.ravel().tolist() == [2.0, 3.0]


def test_the_name_within_an_archive_says_the_format(tmp_path):
    file = tmp_path / "download.zip"
    file.write_bytes(zipped(b"label\n1\n", "train.csv"))
    with pytest.raises(DataError, match="no column is left for the features"):
        read_data(file)


@pytest.mark.parametrize("ending", ["txt.zst", "csv.zst"])
def test_zst_is_written(tmp_path, ending):
    (tmp_path / "data.csv").write_text(TEXT["csv"])
    data = read_data(tmp_path / "data.csv")
    write_data(data, tmp_path / f"again.{ending}")
    assert (tmp_path / f"again.{ending}").read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
    again = read_data(tmp_path / f"again.{ending}")
    np.testing.assert_array_equal(again.X, data.X)


@pytest.mark.parametrize("read", WAYS)
@pytest.mark.parametrize("pack", [zstd, lambda content: zipped(content, "d.csv")])
def test_what_expands_without_end_is_refused(tmp_path, pack, read, monkeypatch):
    monkeypatch.setattr("rankplug.io.compression._ALWAYS_EXPANDED", 1 << 20)
    file = tmp_path / "data.csv"
    file.write_bytes(pack(b"label,qid,a,b\n" + b"1,1,1,1\n" * (1 << 20)))
    with pytest.raises(DataError, match="expands to more than 250 times its size"):
        read(file)


def test_a_preparation_goes_on_within_compressed_text(tmp_path, monkeypatch):
    """The same rows, wherever it was cut off."""
    file = tmp_path / "data.txt"
    file.write_bytes(zstd(TEXT["txt"].replace("\n", "\r").encode()))
    monkeypatch.setattr("rankplug.io.svmlight._BLOCK", 1 << 12)
    monkeypatch.setattr("rankplug.io.prepared.npy._SAVE_SECONDS", 0.0, raising=False)
    calls = []

    def stop(*arguments):
        calls.append(arguments)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return append(*arguments)

    from rankplug.io.prepared import preparing

    append = preparing.append_piece
    monkeypatch.setattr(preparing, "append_piece", stop)
    with pytest.raises(KeyboardInterrupt):
        prepare(file, tmp_path / "folder", progress=False)
    X, _ = prepared(file)
    np.testing.assert_array_equal(X[:, 1], np.arange(N_ROWS) + 1.0)
    assert not os.path.exists(tmp_path / ".folder.partial")
