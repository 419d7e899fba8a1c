#!/usr/bin/env python3
"""Compiles and runs the code of the documents: blocks.py SOURCE BUILD COMPILER

    ```c        blocks of one document add up until one defines main(): that program is compiled, warnings are errors, and run. What is left over
                at the end is compiled. A line <!-- file: NAME --> before a block saves it under that name for later commands.
    ```sh run   is run by `sh -eu` in a folder where `build`, `include` and so on are what they are in the source folder
    ```sh       is read by `sh -n`; scripts under tools/ and programs of build/bin that it names must exist
    ```python   is compiled, not run
    ```cmake    is put into a project and configured by tests/install; ```text and ```yaml are left alone

Links to files must lead somewhere. Anything else that is fenced, and commands that are not, are faults.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD, COMPILER = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
faults = []
counts = {"c": 0, "sh run": 0, "sh": 0, "python": 0, "cmake": 0, "text": 0, "yaml": 0}


def documents():
    folders = [SOURCE, SOURCE / "docs", SOURCE / "tests/cuda", SOURCE / "tools/pytorch"]
    return [path for folder in folders for path in sorted(folder.glob("*.md"))]


def run(what, command, **more):
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=800, **more)
    except subprocess.TimeoutExpired:
        faults.append(f"{what}: {' '.join(map(str, command))[:200]} does not end")
        return False
    if result.returncode != 0:
        faults.append(f"{what}: {' '.join(map(str, command))[:200]} ended with {result.returncode}\n{result.stdout[-1500:]}{result.stderr[-1500:]}")
    return result.returncode == 0


def compile_program(where, code, folder, link):
    (folder / "block.c").write_text(code)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iinclude"]
    if not link:
        return run(where, [COMPILER, *flags, "-c", "block.c", "-o", "block.o"], cwd=folder)
    libraries = ["-Lbuild/lib", "-lsattn", f"-Wl,-rpath,{BUILD / 'lib'}"]
    return run(where, [COMPILER, *flags, "block.c", "-o", "block", *libraries], cwd=folder) and run(where, ["./block"], cwd=folder)


def check_links(document, text):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)):
        if "://" not in target and not (document.parent / target).exists():
            faults.append(f"{document}: the link to {target} leads nowhere")


def blocks(text):
    """(line number, name to save as, language, code) of every fenced block."""
    for match in re.finditer(r"(?:^<!-- file: (\S+) -->\n)?^```([^\n]*)\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, match.start(2)) + 1, match[1], match[2].strip(), match[3]


def check_shell(where, code, folder):
    run(where, ["sh", "-n"], input=code)
    for program in re.findall(r"\b(?:build/bin/[\w-]+|tools/[\w/-]+\.(?:sh|py))", code):
        if not (folder / program).exists():
            faults.append(f"{where}: there is no {program}")


def check_document(document, folder):
    text = document.read_text()
    check_links(document, text)
    program, begun = "", None
    for line, saved, language, code in blocks(text):
        where = f"{document.relative_to(SOURCE)}:{line}"
        if language not in counts:
            faults.append(f"{where}: a block of '{language}', which nothing checks")
            continue
        counts[language] += 1
        if saved:
            (folder / saved).write_text(code)
        if language == "c":
            program, begun = program + code, begun or where
            if re.search(r"\bmain\(", code):
                compile_program(begun, program, folder, link=True)
                program, begun = "", None
        elif language == "sh run":
            run(where, ["sh", "-eu", "-c", code], cwd=folder)
        elif language == "sh":
            check_shell(where, code, folder)
        elif language == "python":
            try:
                compile(code, where, "exec")
            except SyntaxError as error:
                faults.append(f"{where}: {error}")
    if program:
        compile_program(begun, program, folder, link=False)


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    for entry in SOURCE.iterdir():
        if entry.name not in ("build", ".git"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").symlink_to(BUILD)
    os.environ["PATH"] = f"{BUILD / 'bin'}:{os.environ['PATH']}"
    try:
        for document in documents():
            check_document(document, folder)
    finally:
        shutil.rmtree(folder)
    print(", ".join(f"{count} {language}" for language, count in counts.items()))
    print("\n".join(faults))
    if counts["c"] == 0 or counts["sh run"] == 0:
        faults.append("no blocks found: the search is broken")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
