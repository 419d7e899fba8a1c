#!/usr/bin/env python3
"""Writes the man pages from docs/man/*.in, the tool's --help and the public headers: python3 tools/manpages.py build/bin/sattn [--check]"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENVIRONMENT = [
    ("SATTN_DEVICE", "the device where none is named, such as opencl:0 or reference"),
    ("SATTN_TRACE", "error, dispatch, build or all: what is refused, chosen and compiled, on standard error"),
    ("SATTN_CACHE_DIR", "folder of compiled programs; empty: none are kept"),
    ("SATTN_KERNELS", "auto, cpu, gpu or general: the family of kernels, for tests and tuning"),
    ("SATTN_DRAW", "auto, host or device: where permutations are drawn; the result is the same"),
    ("SATTN_AMX", "auto, or 0: CPUs do bf16 without the tile instructions of AMX"),
    ("SATTN_BUILD_OPTIONS", "more options for the driver's OpenCL compiler"),
]


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^\.", r"\\&.", text)


def subcommand(tool, name):
    text = subprocess.run([tool, name, "--help"], check=True, capture_output=True, text=True).stdout
    usage, rest = text.split("\n", 1)
    out = [f".SS {escape(usage.removeprefix('usage: '))}"]
    pending = []
    for line in rest.splitlines():
        option = re.match(r"  (--\S+(?: [A-Z]+)?) *(.*)", line)
        if option:
            out += [".TP", f".B {escape(option[1])}", escape(option[2]) or "the same"]
        elif line.startswith("      "):
            out.append(escape(line.strip()))
        elif line.strip():
            out += ([".PP"] if not pending else []) + [escape(line)]
        pending = line.strip() and not option and not line.startswith("      ")
    return out


def functions(header):
    text = (ROOT / "include/sattn" / f"{header}.h").read_text()
    names = re.findall(r"^(?:SATTN_API|static inline)[^;{(]*?\b(sattn_\w+)\(", text, re.M)
    return [f".BR {name} ()" + ("," if name != names[-1] else "") for name in names]


def environment():
    return [line for name, meaning in ENVIRONMENT for line in (".TP", f".B {name}", escape(meaning))]


def example():
    program = re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    return [escape(line) for line in program.rstrip().splitlines()]


def page(template, tool):
    overview = subprocess.run([tool, "--help"], check=True, capture_output=True, text=True).stdout
    commands = re.findall(r"^  ([a-z]+)  ", overview, re.M)
    major, minor, patch = re.findall(r"define SATTN_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (ROOT / "include/sattn/version.h").read_text())
    lines = []
    for line in template.splitlines():
        mark = re.fullmatch(r"@(\w+)(?: (\w+))?@", line)
        if not mark:
            lines.append(line.replace("@VERSION@", f"{major}.{minor}.{patch}"))
        elif mark[1] == "SUBCOMMANDS":
            lines += [text for name in commands for text in subcommand(tool, name)]
        elif mark[1] == "FUNCTIONS":
            lines += functions(mark[2])
        else:
            lines += {"ENVIRONMENT": environment, "EXAMPLE": example}[mark[1]]()
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", help="the built tool")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page differs from what would be written")
    options = parser.parse_args()
    stale = False
    for template in sorted((ROOT / "docs/man").glob("*.in")):
        target = template.with_suffix("")
        text = page(template.read_text(), options.tool)
        if not options.check:
            target.write_text(text)
        elif not target.exists() or target.read_text() != text:
            stale = True
            print(f"{target.relative_to(ROOT)} is stale: python3 tools/manpages.py {options.tool}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
