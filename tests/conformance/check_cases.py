#!/usr/bin/python3
"""docs/field-cases.md against the tests: no id is missing, and every test that it names exists.

    check_cases.py SOURCE_FOLDER BUILD_FOLDER
"""
import pathlib
import re
import sys

COUNTS = {"S": 13, "N": 10, "H": 10, "M": 8, "D": 10, "C": 6, "R": 12, "E": 6, "F": 16}
# Tests that only some builds have: without CUDA, without Python and the like.
SOMETIMES = re.compile(r"cuda_|install|docs-|oclgrind|exports|faults-|threads-|kernels-need")

source, build = map(pathlib.Path, sys.argv[1:3])


def text_of(pattern):
    return "\n".join(path.read_text() for path in sorted(source.glob(pattern)))


conformance = set(re.findall(r'test_case_(?:run|modes)\(suite, "([^"]+)"', text_of("tests/conformance/*.c")))
added = set(re.findall(r"add_test\(\[=*\[([\w-]+)", "\n".join(p.read_text() for p in build.rglob("CTestTestfile.cmake"))))
lists = text_of("tests/**/CMakeLists.txt")
nightly = set(re.findall(r"^#   (\w+) ", text_of("tools/nightly.sh"), re.M))


def exists(name):
    kind, _, rest = name.rpartition(":")
    if kind == "unit":
        file, function = rest.split("/")
        path = source / "tests" / "unit" / f"test_{file}.c"
        return path.exists() and re.search(rf"cmocka_unit_test\w*\({function}\b", path.read_text())
    if kind == "ctest":
        return rest in added or (SOMETIMES.search(rest) and re.search(rf"\b{re.escape(rest)}\b", lists))
    if kind == "nightly":
        return rest in nightly
    return rest in conformance


failures = []
seen = {}
for line in (source / "docs" / "field-cases.md").read_text().splitlines():
    match = re.match(r"\| (P-[A-Z]\d+) \| (.*) \| (.*) \|$", line)
    if not match:
        continue
    case, what, tests = match.groups()
    if case in seen:
        failures.append(f"{case} stands there twice")
    names = re.findall(r"`([^`]+)`", tests)
    seen[case] = names
    if not what or not names:
        failures.append(f"{case}: no answer or no test")
    failures += [f"{case}: no test of the name {name}" for name in names if not exists(name)]
failures += [f"P-{part}{i} is missing" for part, count in COUNTS.items() for i in range(1, count + 1) if f"P-{part}{i}" not in seen]
# Each id that a test mentions has its line.
for path in sorted((source / "tests").rglob("*.c")):
    for case in re.findall(r"\bP-[A-Z]\d+\b", path.read_text()):
        if case not in seen:
            failures.append(f"{path.relative_to(source)} mentions {case}, which the table lacks")
print("\n".join(failures) or f"{len(seen)} cases, {sum(map(len, seen.values()))} tests named, all there")
sys.exit(bool(failures))
