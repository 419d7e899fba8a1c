#!/usr/bin/env python3
"""Draws the house from the files and their includes, for README.md, and checks its rules: python3 tools/house.py [--check | --write]"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What a folder may include of the others. Longest prefix first.
MAY_INCLUDE = {
    "include/sattn": {"include/sattn"},
    "lib/reference": {"include/sattn", "lib", "lib/reference"},
    "lib": {"include/sattn", "lib"},
    "cl": {"include/sattn", "lib", "cl"},
    "cuda": {"include/sattn", "lib", "cuda"},
    "tools": {"include/sattn", "tools"},
}
# Kernels share two files with the core, and nothing else: they compile as C, OpenCL C and CUDA.
SHARED_WITH_KERNELS = {"lib/kernel_params.h", "lib/philox.h"}
DRIVER_HEADERS = {"CL/cl.h": ("include/sattn/opencl.h", "cl/", "tools/"), "cuda.h": ("include/sattn/cuda.h", "tools/")}
STAGES = ["draw", "permute", "pack", "select", "attend", "gate", "merge", "rows"]
BACKENDS = [("lib/reference", "reference_{}.c", "plain C, in double"), ("cl", "kernels/{}.cl", "OpenCL 1.2 kernels"), ("cuda", "kernels/{}.cu", "CUDA kernels")]
# Host files without a twin in the other device backend, and why. attend_NAME is free: each device has its own ways to attend.
ALONE = {
    "cl": {"amx": "tile instructions of CPUs", "blas": "CUDA's products are one call, in cuda_gate.c", "merge": "CUDA has it in cuda_rows.c: no arguments to bind",
           "moba": "lists of the CPU kernels", "pack": "CUDA gathers rows as it goes", "pack_grad": "as pack", "program_cache": "CUDA's kernels come compiled"},
    "cuda": {"band": "what its tensor-core kernels share", "band_grad": "as band"},
}
LINES, KERNEL_LINES, FUNCTION_LINES = 600, 400, 66  # about 60: a table of options inside a function may take some more
BEGIN, END = "<!-- tools/house.py draws this -->\n```text\n", "```\n<!-- end of the drawing -->"


def sources(folder):
    return sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".c", ".h", ".cl", ".cu"))


def name(path):
    return path.relative_to(ROOT).as_posix()


def layer(path):
    return next((prefix for prefix in MAY_INCLUDE if path.startswith(prefix + "/")), None)


def resolve(path, quoted):
    """The file of this project that an #include of `path` means, or None."""
    places = [path.parent, path.parent.parent, ROOT / "lib", ROOT / "cuda", ROOT / "cuda/kernels", ROOT / "cl", ROOT / "lib/reference"]
    places += [ROOT / "include"] + [p for p in (ROOT / "tools").iterdir() if p.is_dir()]
    for place in places:
        if (place / quoted).is_file():
            return name(place / quoted)
    return None


def includes(path):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(errors="replace"), re.M)


def check_includes(faults):
    for top in ("include/sattn", "lib", "cl", "cuda", "tools"):
        for path in sources(top):
            here = name(path)
            for included in includes(path):
                target = resolve(path, included)
                if included in DRIVER_HEADERS:
                    if not here.startswith(DRIVER_HEADERS[included]):
                        faults.append(f"{here} includes the driver's header {included}")
                elif target and layer(target) and layer(target) not in MAY_INCLUDE[layer(here)]:
                    faults.append(f"{here} includes {target}: {layer(here)} may not include {layer(target)}")
                elif target and "/kernels/" in here and target.startswith("lib/") and target not in SHARED_WITH_KERNELS:
                    faults.append(f"{here} includes {target}: kernels share {' and '.join(sorted(SHARED_WITH_KERNELS))} only")
                elif not target and '"' + included + '"' in path.read_text() and included != "gpu_simulated.h":
                    faults.append(f"{here} includes {included}, which is nowhere")
    registry = {p for p in sources("lib") if re.search(r"sattn_(opencl|cuda)_backend\b", p.read_text())}
    for path in registry - {ROOT / "lib/registry.c", ROOT / "lib/backend.h"}:
        faults.append(f"{name(path)} knows a backend by name: lib/registry.c alone does")


def check_twins(faults):
    concepts = {folder: {p.stem.split("_", 1)[1] for p in (ROOT / folder).glob("*.c")} for folder in ALONE}
    for folder, other in (("cl", "cuda"), ("cuda", "cl")):
        for concept in sorted(concepts[folder] - concepts[other]):
            if not concept.startswith("attend_") and concept not in ALONE[folder]:
                faults.append(f"{folder}/{folder}_{concept}.c has no twin {other}/{other}_{concept}.c, and tools/house.py has no reason why")
        for concept in sorted(set(ALONE[folder]) - (concepts[folder] - concepts[other])):
            faults.append(f"tools/house.py excuses {folder}/{folder}_{concept}.c, which needs no excuse")


def check_options(faults):
    """Every option of the build, and every variable of the environment, stands in README.md."""
    readme = (ROOT / "README.md").read_text()
    builds = [ROOT / "CMakeLists.txt"] + [p for top in ("lib", "cl", "cuda", "tools") for p in (ROOT / top).rglob("CMakeLists.txt") if "examples" not in p.parts]
    for path in builds:
        for option in re.findall(r"^ *option\((\w+) ", path.read_text(), re.M):
            if f"`{option}`" not in readme:
                faults.append(f"README.md does not name {option}, an option of {name(path)}")
    for path in sources("lib"):
        for variable in re.findall(r'(?:getenv|setting|environment)\((?:\w+, )?"(SATTN_\w+)"', path.read_text()):
            if f"`{variable}`" not in readme:
                faults.append(f"README.md does not name {variable}, which {name(path)} reads")


def check_sizes(faults):
    for path in [p for top in ("include", "lib", "cl", "cuda", "tools", "tests") for p in sources(top)]:
        lines = path.read_text(errors="replace").splitlines()
        limit = KERNEL_LINES if "kernels" in path.parts else LINES
        if len(lines) > limit:
            faults.append(f"{name(path)} has {len(lines)} lines, more than {limit}: split it by concept")
        start = None
        for number, line in enumerate(lines, 1):
            if start is None and re.match(r"\S.*\) \{$|\s+.*\) \{$", line):
                start = number
            elif line.startswith("}"):
                if start and number - start + 1 > FUNCTION_LINES:
                    faults.append(f"{name(path)}:{start}: a function of {number - start + 1} lines, more than {FUNCTION_LINES}")
                start = None


def header_levels():
    """Public headers by how many others lie below them; the drivers' ones apart."""
    below = {p.stem: [pathlib.Path(i).stem for i in includes(p) if i.startswith("sattn/")] for p in sources("include/sattn")}

    def depth(stem):
        return 1 + max((depth(other) for other in below[stem]), default=-1)

    levels = {}
    for stem in sorted(below):
        if stem not in ("opencl", "cuda"):
            levels.setdefault(depth(stem), []).append(stem)
    return [levels[key] for key in sorted(levels)]


def draw():
    levels = header_levels()
    text = ["                  your program, or the tool `sattn`".rstrip(), "                                |"]
    text += ["include/sattn/    " + "  >  ".join(" ".join(level) for level in levels[1:][::-1]), "                  opencl, cuda: for programs with objects of their own"]
    text += ["                                |", "lib/              checks every call once; half floats, permutations, plans; registry.c alone knows the backends"]
    text += ["                                |", "        +-----------------------+-----------------------+"]
    column = "{:^17}{:^31}{:^17}"
    text.append(column.format(*(folder + "/" for folder, _, _ in BACKENDS)).rstrip())
    text.append(column.format(*(what for _, _, what in BACKENDS)).rstrip())
    for stage in STAGES:
        cells = []
        for folder, pattern, _ in BACKENDS:
            found = list((ROOT / folder).glob(pattern.format(stage))) + list((ROOT / folder).glob(pattern.format(stage + "_*")))
            cells.append(stage if found else "-")
        text.append(column.format(*cells).rstrip())
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a rule is broken or the picture of README.md is not the one drawn")
    parser.add_argument("--write", action="store_true", help="put the picture into README.md")
    options = parser.parse_args()
    readme = ROOT / "README.md"
    picture, text = BEGIN + draw() + END, readme.read_text()
    if options.write:
        head, rest = text.split(BEGIN, 1)
        readme.write_text(head + picture + rest.split(END, 1)[1])
    elif options.check:
        faults = []
        check_includes(faults)
        check_twins(faults)
        check_options(faults)
        check_sizes(faults)
        if picture not in text:
            faults.append("README.md: the picture of the house is not what the sources show: python3 tools/house.py --write")
        print("\n".join(faults) or "the house stands as drawn")
        return 1 if faults else 0
    else:
        print(draw(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
