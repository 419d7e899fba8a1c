#!/usr/bin/env python3
"""Every script under tools/ says in its first lines what it does, answers --help with that and does nothing else; the workflow to copy is sound."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCED = {"packages.sh", "seconds.sh"}  # they say so in their first line, and are never run


def scripts():
    for path in sorted(list((ROOT / "tools").glob("*")) + list((ROOT / "tools/examples").rglob("*.sh"))):
        if path.is_file() and path.name not in SOURCED and path.read_text(errors="replace").startswith("#!"):
            yield path


def check_help(path):
    if not any(word in path.read_text() for word in ("--help", "ArgumentParser")):
        return f"{path}: does not know --help"
    interpreter = ["sh"] if path.read_text().startswith("#!/bin/sh") else [sys.executable]
    result = subprocess.run([*interpreter, str(path), "--help"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        return f"{path}: --help ends with {result.returncode}: {result.stderr[-200:]}"
    if len(result.stdout.split()) < 5:
        return f"{path}: --help says nothing on standard output"
    return None


def check_workflow(path):
    text = path.read_text()
    try:
        import yaml

        yaml.safe_load(text)
    except ImportError:
        pass  # the commands below are what can go wrong
    commands = re.findall(r"^( +)(?:- )?run: \|\n((?:\1  .*\n|\n)+)", text, re.M)
    if len(commands) < 2 or "\t" in text:
        return f"{path}: no commands found, or tabs"
    for _, block in commands:
        block = re.sub(r"\$\{\{.*?\}\}", "x", block)
        if subprocess.run(["sh", "-n"], input=block, text=True, check=False).returncode != 0:
            return f"{path}: not a shell script:\n{block}"
    return None


def main():
    found = list(scripts())
    faults = [check_help(path) for path in found] + [check_workflow(ROOT / "tools/examples/workflow.yml")]
    faults = [fault for fault in faults if fault]
    print("\n".join(faults) or f"{len(found)} scripts say what they do")
    return 1 if faults or len(found) < 8 else 0


if __name__ == "__main__":
    sys.exit(main())
