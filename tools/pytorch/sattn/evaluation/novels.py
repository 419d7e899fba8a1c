"""Jane Austen's six novels as plain text, for measurements that anybody can repeat.

    apt-get download r-cran-janeaustenr
    python -m sattn.evaluation.novels r-cran-janeaustenr_*.deb FOLDER [NOVEL ...]

Writes FOLDER/mansfieldpark.txt and so on. The texts are in the public domain; the Debian package keeps them as R character vectors in a lazy-load
database. No R is needed: the two files are read here. Instead of the .deb, the folder that holds Rdata.rdb and Rdata.rdx may be given.
"""

import argparse
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

# The types of R's serialisation format (XDR, versions 2 and 3) that character vectors and the index of the database are made of.
_SYMBOL, _PAIRLIST, _CHARACTERS, _LOGICALS, _INTEGERS, _STRINGS, _LIST = 1, 2, 9, 10, 13, 16, 19
_END_OF_LIST, _REFERENCE = 254, 255


class _Reader:
    def __init__(self, data):
        self.data, self.at, self.symbols = data, 0, []
        if data[:2] != b"X\n":
            raise ValueError("not serialised R data in XDR form")
        self.at = 2
        version = self.integer()
        self.integer(), self.integer()
        if version == 3:
            self.take(self.integer())

    def take(self, count):
        if count < 0 or self.at + count > len(self.data):
            raise ValueError("serialised R data ends early")
        self.at += count
        return self.data[self.at - count : self.at]

    def integer(self):
        return struct.unpack(">i", self.take(4))[0]

    def item(self):
        flags = self.integer()
        kind = flags & 0xFF
        if kind == _END_OF_LIST:
            return None
        if kind == _REFERENCE:
            return self.symbols[(flags >> 8) - 1]
        if kind == _SYMBOL:
            self.symbols.append(self.item())
            return self.symbols[-1]
        if kind == _CHARACTERS:
            length = self.integer()
            return "" if length == -1 else self.take(length).decode("utf-8", "replace")
        if kind == _PAIRLIST:
            return self.pairlist(flags)
        if kind in (_LOGICALS, _INTEGERS):
            value = list(struct.unpack(f">{(count := self.integer())}i", self.take(4 * count)))
        elif kind in (_STRINGS, _LIST):
            value = [self.item() for _ in range(self.integer())]
        else:
            raise ValueError(f"serialised R data holds type {kind}, which no text needs")
        attributes = self.item() if flags & 0x200 else None
        names = attributes.get("names") if attributes else None
        return dict(zip(names, value)) if names else value

    def pairlist(self, flags):
        pairs = {}
        while flags & 0xFF == _PAIRLIST:
            if flags & 0x200:
                self.item()
            tag = self.item() if flags & 0x400 else len(pairs)
            pairs[tag] = self.item()
            flags = self.integer()
        return pairs


def read_database(folder):
    """{name: [line, ...]} of every character vector in Rdata.rdb."""
    folder = pathlib.Path(folder)
    index = _Reader(zlib.decompress((folder / "Rdata.rdx").read_bytes(), 31)).item()
    database = (folder / "Rdata.rdb").read_bytes()
    texts = {}
    for name, (offset, length) in index["variables"].items():
        # Four bytes with the length, then a zlib stream; the other compressions of R carry a letter in front.
        texts[name] = _Reader(zlib.decompress(database[offset + 4 : offset + length])).item()
    return texts


def read_novels(source):
    """{name: text}; source is the Debian package or the folder of the database."""
    source = pathlib.Path(source)
    if source.is_dir():
        found = read_database(source)
    else:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["dpkg-deb", "-x", str(source), folder], check=True)
            found = read_database(next(pathlib.Path(folder).rglob("Rdata.rdx")).parent)
    return {name: unwrap(lines) for name, lines in found.items()}


def unwrap(lines):
    """Paragraphs as one line each, an empty line between them: where printed lines broke and underscores for italics are no part of the text."""
    paragraphs, words = [], []
    for line in [*lines, ""]:
        if line.strip():
            words.append(line.strip().replace("_", ""))
        elif words:
            paragraphs.append(" ".join(words))
            words = []
    return "\n\n".join(paragraphs) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m sattn.evaluation.novels", description=__doc__.split("\n")[0])
    parser.add_argument("source", help="the Debian package r-cran-janeaustenr, or the folder with Rdata.rdb")
    parser.add_argument("folder", help="where the .txt files go")
    parser.add_argument("novel", nargs="*", help="only these, for example mansfieldpark")
    options = parser.parse_args(arguments)
    novels = read_novels(options.source)
    unknown = [name for name in options.novel if name not in novels]
    if unknown:
        parser.error(f"no novel {unknown[0]!r}; there are {', '.join(sorted(novels))}")
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.novel or sorted(novels):
        path = folder / f"{name}.txt"
        path.write_text(novels[name], encoding="utf-8")
        print(f"{path}: {len(novels[name])} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
