#!/usr/bin/python3
"""OpenCL kernels ask for nothing that a device may lack: no double (not even in a constant without its f), no half arithmetic, no extension,
no subgroup, nothing after OpenCL C 1.2, and no option for the compiler that forgets infinities.

    check_kernels.py SOURCE_FOLDER
"""
import pathlib
import re
import sys

FORBIDDEN = {
    "double": r"\bdouble\d*\b",
    "a double constant (no f)": r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE][-+]?\d))(?:[eE][-+]?\d+)?(?![\w.])",
    "half arithmetic": r"(?<!typedef )\bhalf(?:2|3|4|8|16)?\s+\w+\s*[=;]",
    "an extension": r"#\s*pragma\s+OPENCL\s+EXTENSION",
    "subgroups": r"\b(?:sub_group|intel_sub_group|get_sub_group)\w*",
    "OpenCL C 2.0": r"\b(?:work_group_(?:all|any|broadcast|reduce|scan)\w*|generic|atomic_(?:load|store|fetch)\w*|pipe)\b",
    "atomics on floats": r"\batomic_(?:xchg|cmpxchg|add)\s*\(\s*\(\s*(?:volatile\s+)?__global\s+(?:float|int)\s*\*\s*\)",
}
OPTIONS = r"-cl-(?:fast-relaxed-math|finite-math-only|unsafe-math\w*|denorms-are-zero|mad-enable)"


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda match: "\n" * match.group().count("\n"), text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def faults(name, text, rules):
    for line, code in enumerate(without_comments(text).splitlines(), 1):
        for what, pattern in rules.items():
            match = re.search(pattern, code)
            if match:
                yield f"{name}:{line}: {what}: {code.strip()}"


source = pathlib.Path(sys.argv[1])
kernels = sorted((source / "cl" / "kernels").glob("*.cl")) + [source / "lib" / "philox.h", source / "lib" / "kernel_params.h"]
found = [fault for path in kernels for fault in faults(path.name, path.read_text(), FORBIDDEN)]
for path in sorted((source / "cl").glob("*.c")):
    found += faults(path.name, path.read_text(), {"an option that changes arithmetic": OPTIONS})
for path in [source / "cuda" / "CMakeLists.txt", *sorted((source / "cuda").glob("*.c"))]:
    found += faults(path.name, path.read_text(), {"an option that changes arithmetic": r"use_fast_math|ftz=true|prec-div=false|prec-sqrt=false"})
# The rules themselves, on lines that break them.
broken = "double x;\nfloat y = 1.0;\nhalf z = 1;\nfloat w = 1e-3;\nsub_group_barrier();\n#pragma OPENCL EXTENSION all : enable\nwork_group_reduce_add(1);\n"
if len(list(faults("self", broken, FORBIDDEN))) != 7 or list(faults("self", "float x = 1.0f + 2.5e-3f; /* 1.0 */ int i = 0x1F; x = a.s01;", FORBIDDEN)):
    found.append("the rules do not find what they should")
print("\n".join(found) or f"{len(kernels)} files, all clean")
sys.exit(bool(found))
