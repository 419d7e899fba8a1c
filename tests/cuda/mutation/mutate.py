#!/usr/bin/env python3
"""Mutation tests of the engines: build a kernel with one injected mistake and demand that its test fails.

    mutate.py --engine host|ptx --source DIR --programs DIR --simulator FILE [NAME...]

Mistakes come in two kinds. A fault is code in a kernel under gpu_fault("name"); it is chosen by -DGPU_FAULT=name and
both engines must see it. A wrapper mistake changes the text of gpu.h's device half; only the PTX engine can see that.
A mistake that leaves the compiler's output as it was cannot change a result: it is reported as equivalent, and listed
as such below, so that one that becomes so, or stops being so, is noticed. Exit status 1 if any mistake gets away."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

# no_swizzle leaves results right: only the conflict counters tell
FAULTS = ["no_copy_wait", "weak_copy_wait", "no_barrier_after_wait", "tail_unwritten", "order_past_tail", "mask_column",
          "window_too_wide", "divergent_shuffle", "fragment_swapped", "trans_forgotten", "no_swizzle",
          "no_barrier_before_refill", "tail_written", "four_writers"]

# name -> (pattern, replacement, the n-th match or 0 for all, expected)
WRAPPERS = {
    "mma_f16_swaps_a1_a2": (r'"r"\(a\[1\]\), "r"\(a\[2\]\)', '"r"(a[2]), "r"(a[1])', 1, "caught"),
    "mma_bf16_swaps_a1_a2": (r'"r"\(a\[1\]\), "r"\(a\[2\]\)', '"r"(a[2]), "r"(a[1])', 2, "caught"),
    "mma_bf16_is_f16": (r"f32\.bf16\.bf16\.f32", "f32.f16.f16.f32", 0, "caught"),
    "pack_f16_swaps_halves": (r'"=r"\(r\) : "f"\(high\), "f"\(low\)', '"=r"(r) : "f"(low), "f"(high)', 1, "caught"),
    "pack_bf16_swaps_halves": (r'"=r"\(r\) : "f"\(high\), "f"\(low\)', '"=r"(r) : "f"(low), "f"(high)', 2, "caught"),
    "ldmatrix_trans_without_trans": (r"m8n8\.x4\.trans\.shared", "m8n8.x4.shared", 0, "caught"),
    "ldmatrix_swaps_r0_r1": (r'"=r"\(r\[0\]\), "=r"\(r\[1\]\), "=r"\(r\[2\]\)', '"=r"(r[1]), "=r"(r[0]), "=r"(r[2])', 0, "caught"),
    "copy_ignores_source_size": (r"\[%0\], \[%1\], 16, %2;", "[%0], [%1], 16;", 0, "caught"),
    "copy_wait_does_nothing": (r"cp\.async\.wait_group %0;", "// %0", 0, "caught"),
    "copy_commit_does_nothing": (r"cp\.async\.commit_group;", "//", 0, "caught"),
    # it has outputs, so it may move if nothing holds it: above the wait for what it reads
    "ldmatrix_without_volatile_and_memory": (r'asm volatile\(("ldmatrix[^"]*"(?:[^;"]|"[^"]*")*?) : "memory"\);', r"asm(\1);", 0, "caught"),
    # The compiler keeps asm without outputs in place by itself: the text it writes is the same.
    "commit_without_volatile": (r'asm volatile\("cp\.async\.commit_group;" ::: "memory"\)', 'asm("cp.async.commit_group;")', 0, "equivalent"),
    "copy_without_volatile_and_memory": (r'asm volatile\(("cp\.async\.c[ag][^"]*"[^;"]*(?:"[^"]*"[^;"]*)*?) : "memory"\);', r"asm(\1);", 0, "equivalent"),
    "wait_without_memory": (r'("cp\.async\.wait_group %0;" ::"n"\(pending\)) : "memory"', r"\1", 0, "equivalent"),
}


def replace_nth(text, pattern, replacement, nth):
    count = [0]

    def one(match):
        count[0] += 1
        return match.expand(replacement) if nth in (0, count[0]) else match.group(0)
    changed = re.sub(pattern, one, text)
    if changed == text:
        sys.exit(f"mutate.py: pattern {pattern!r} changed nothing: the table is out of date")
    return changed


def instructions(ptx):
    """The PTX without line information and comments."""
    lines = [re.sub(r"//.*", "", line).strip() for line in ptx.splitlines()]
    return [line for line in lines if line and not line.startswith((".loc", ".file"))]


class Mutator:
    def __init__(self, args):
        self.args = args
        self.cxx = [args.cxx, *args.cxx_flags.split()]
        self.folder = tempfile.mkdtemp(prefix="sattn-mutation-")
        self.tests = os.path.join(args.source, "tests", "cuda")
        self.kernels = os.path.join(args.source, "cuda", "kernels")
        self.kernel = os.path.join(self.tests, "selftest", "attention.cu")

    def run(self, command, **more):
        return subprocess.run(command, capture_output=True, text=True, **more)

    def compile(self, command):
        done = self.run(command)
        if done.returncode:
            print(" ".join(command), done.stdout, done.stderr, sep="\n")
            sys.exit("mutate.py: the kernel does not build")

    def host_test(self, name):
        exe = os.path.join(self.folder, "host")
        if not os.path.exists(exe):
            self.build_host(exe)
        return self.run([exe, "quick"], env={**os.environ, "SATTN_GPU_FAULT": name})

    def build_host(self, exe):
        obj = exe + ".o"
        includes = [f"-I{d}" for d in (self.kernels, os.path.join(self.tests, "engine"), os.path.join(self.tests, "ptx"),
                                       os.path.join(self.tests, "selftest"))]
        self.compile([*self.cxx, "-std=gnu++17", "-O1", "-Wno-unknown-pragmas", "-DSATTN_SIMULATE", "-DGPU_FAULT_RUNTIME", *includes, "-x", "c++",
                      "-c", self.kernel, "-o", obj])
        self.compile([*self.cxx, obj, *self.objects(), self.args.simulator, "-o", exe])

    def objects(self):
        """Test program and checks, compiled once."""
        out = []
        for part in ("test_attention", "check"):
            obj = os.path.join(self.folder, part + ".o")
            if not os.path.exists(obj):
                includes = [f"-I{os.path.join(self.tests, d)}" for d in ("engine", "ptx", "selftest")]
                self.compile([*self.cxx, "-std=gnu++17", "-O1", *includes, "-c", os.path.join(self.tests, "selftest", part + ".cpp"),
                              "-o", obj])
            out.append(obj)
        return out

    def ptx(self, defines, headers, name, kernel=None):
        out = os.path.join(self.folder, name + ".ptx")
        self.compile([self.args.nvcc, "-std=c++17", "-O3", "-lineinfo", "-arch=compute_80", "-ptx", *defines, f"-I{headers}",
                      f"-I{os.path.dirname(self.kernel)}", "-o", out, kernel or self.kernel])
        return out

    def ptx_test(self, ptx, program="attention"):
        program = os.path.join(self.args.programs, "sattn_selftest_" + program)
        return self.run([program, "quick"], env={**os.environ, "SATTN_SELFTEST_PTX": ptx})

    def wrapper_test(self, ptx, headers, name):
        """What attention hides by its masks, the small kernels may show."""
        done = self.ptx_test(ptx)
        if done.returncode:
            return done
        small = os.path.join(self.tests, "selftest", "mistakes.cu")
        return self.ptx_test(self.ptx([], headers, name + "-small", small), "mistakes")

    def headers_with(self, rule):
        folder = os.path.join(self.folder, "headers")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        with open(os.path.join(self.kernels, "gpu.h"), encoding="utf-8") as f:
            text = f.read()
        # the table is written for one layout: let no line break hide a match
        text = re.sub(r'",\s*\n\s*"', '", "', re.sub(r"\),\s*\n\s*", "), ", text))
        with open(os.path.join(folder, "gpu.h"), "w", encoding="utf-8") as f:
            f.write(replace_nth(text, *rule[:3]) if rule else text)
        return folder


def first_failure(done):
    for line in done.stdout.splitlines():
        if line.startswith("FAIL"):
            return line[5:190]
    return "exit status %d" % done.returncode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=["host", "ptx"], required=True)
    parser.add_argument("--source", required=True, help="the project's root")
    parser.add_argument("--programs", required=True, help="folder of the self-tests' programs")
    parser.add_argument("--simulator", required=True, help="the engines' static library")
    parser.add_argument("--cxx-flags", default="")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    m = Mutator(args)
    away = 0
    try:
        clean_ptx = m.ptx([], m.headers_with(None), "clean") if args.engine == "ptx" else None
        clean = m.ptx_test(clean_ptx) if clean_ptx else m.host_test("none")
        if clean.returncode:
            sys.exit("mutate.py: the kernel fails without a mistake: " + first_failure(clean))
        for name in FAULTS:
            if args.names and name not in args.names:
                continue
            done = m.ptx_test(m.ptx(["-DGPU_FAULT=" + name], m.kernels, name)) if clean_ptx else m.host_test(name)
            away += not done.returncode
            print(f"{'caught' if done.returncode else 'NOT CAUGHT':11}{name}: {first_failure(done) if done.returncode else ''}")
        for name, rule in WRAPPERS.items() if clean_ptx else ():
            if args.names and name not in args.names:
                continue
            headers = m.headers_with(rule)
            mutant = m.ptx([], headers, name)
            with open(mutant, encoding="utf-8") as a, open(clean_ptx, encoding="utf-8") as b:
                same = instructions(a.read()) == instructions(b.read())
            done = None if same else m.wrapper_test(mutant, headers, name)
            got = "equivalent" if same else "caught" if done.returncode else "NOT CAUGHT"
            wrong = got != rule[3]
            away += wrong
            print(f"{got:11}{name}: {first_failure(done) if done else 'the same PTX'}{' (expected ' + rule[3] + ')' if wrong else ''}")
    finally:
        shutil.rmtree(m.folder)
    print("every mistake is caught" if not away else f"{away} mistakes got away")
    return 1 if away else 0


sys.exit(main())
