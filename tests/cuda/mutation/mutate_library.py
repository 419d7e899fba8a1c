#!/usr/bin/env python3
"""Mutation tests of the library's kernels: each mistake under gpu_fault("name") must make cuda_library_kernels fail.

    mutate_library.py --program FILE --faulty LIBCUDA [NAME...]                       kernels compiled for the host
    mutate_library.py --program FILE --nvcc FILE --source DIR [--few] [NAME...]       nvcc's PTX

On the host, LIBCUDA is the stub driver with kernels in which SATTN_GPU_FAULT chooses the mistake. On PTX each mistake is
compiled, which takes seconds: --few takes one for each kind of check. Exit status 1 if a mistake gets away, or if the
kernels have one that is not listed here."""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

MMA = "attend_mma_64"
# name -> (kernel file, problems that must show it)
FAULTS = {
    "no_copy_wait": (MMA, "mma"), "weak_copy_wait": (MMA, "mma"), "no_barrier": (MMA, "mma"),
    "tail_not_zeroed": (MMA, "mma"), "order_past_tail": (MMA, "mma"), "mask_column": (MMA, "mma"), "window_wide": (MMA, "mma"),
    "divergent_shuffle": (MMA, "mma"), "fragment_swapped": (MMA, "mma"), "no_transpose": (MMA, "mma"), "no_swizzle": (MMA, "mma"),
    "rescale_forgotten": (MMA, "mma-decode"), "causal_skip_early": (MMA, "mma"), "tail_rows_written": (MMA, "mma"),
    "nonfinite_ignored": (MMA, "mma"), "lse_by_four_lanes": (MMA, "mma"), "splits_skip_a_tile": (MMA, "mma-decode"),
    "sink_in_every_split": (MMA, "mma-decode"), "redo_reads_unseen": (MMA, "mma"),
    "fp32_no_swizzle": ("attend_fp32", "fp32"), "fp32_rescale_forgotten": ("attend_fp32", "fp32"),
    "fp32_no_copy_wait": ("attend_fp32", "fp32"),
    "fp32_no_barrier": ("attend_fp32", "fp32"), "fp32_mask_strict": ("attend_fp32", "fp32"),
    "permute_no_barrier": ("permute", "mma"), "permute_unsorted": ("permute", "mma"), "permute_range_short": ("permute", "mma"),
    "permute_chunks_ignored": ("permute", "mma-lengths"), "permute_wrap_forgotten": ("permute", "mma-wrap"),
    "select_last_wins": ("select", "moba"), "select_own_twice": ("select", "moba"), "select_rest_kept": ("select", "moba"),
    "join_natural": ("join_splits", "mma-decode"), "join_lse_by_all": ("join_splits", "mma-decode"),
    "slots_first_chunk_ignored": ("slots", "general"), "slots_gaps_kept": ("slots", "general"),
    "merge_lse_read_by_all": ("merge", "merge"), "merge_empty_counts": ("merge", "merge"),
    "rows_not_gathered": ("rows", "rows"),
    "general_no_sync": ("attend_general", "general"), "general_reads_unseen": ("attend_general", "general"),
    "general_rescale_forgotten": ("attend_general", "general"),
}
# a race, a copy in flight, wrong values, bank conflicts, bounds, and a kernel other than attention
FEW = ["no_barrier", "weak_copy_wait", "mask_column", "no_swizzle", "order_past_tail", "permute_range_short", "join_lse_by_all"]


def run_problem(args, name, **variables):
    return subprocess.run([args.program, FAULTS[name][1]], capture_output=True, text=True, env={**os.environ, **variables})


def on_host(args, name, _folder):
    return run_problem(args, name, LD_PRELOAD=args.faulty, SATTN_GPU_FAULT=name)


def on_ptx(args, name, folder):
    kernels = os.path.join(args.source, "cuda", "kernels")
    ptx = os.path.join(folder, name + ".ptx")
    command = [args.nvcc, "-std=c++17", "-O3", "-lineinfo", "-arch=compute_80", "-ptx", "-DGPU_FAULT=" + name, "-I" + os.path.join(args.source, "lib"),
               "-I" + kernels, "-o", ptx, os.path.join(kernels, FAULTS[name][0] + ".cu")]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode:
        sys.exit("mutate_library.py: the kernel does not build: " + built.stderr)
    return run_problem(args, name, SATTN_SIM_PTX=ptx)


def unlisted():
    """Names in the kernels that the table lacks; gradients have their own tests."""
    kernels = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "cuda", "kernels")
    found = set()
    for file in os.listdir(kernels):
        if "grad" in file or file == "gpu.h":
            continue
        with open(os.path.join(kernels, file), encoding="utf-8") as text:
            found.update(re.findall(r'gpu_fault\("(\w+)"\)', text.read()))
    return found ^ set(FAULTS)


def first_complaint(done):
    lines = (done.stderr + done.stdout).splitlines()
    for line in lines:
        if line.startswith(("FAIL", "stub driver: ")) and "misuse" not in line:
            return line[:190]
    return "exit status %d" % done.returncode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--faulty")
    parser.add_argument("--nvcc")
    parser.add_argument("--source")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if bool(args.faulty) == bool(args.nvcc):
        parser.error("either --faulty or --nvcc")
    attempt = on_host if args.faulty else on_ptx
    names = args.names or (FEW if args.few else list(FAULTS))
    away = 0
    for name in sorted(unlisted()):
        print(f"{name}: either not in the kernels or not in the table of mutate_library.py")
        away += 1
    with tempfile.TemporaryDirectory(prefix="sattn-mutation-") as folder:
        if args.faulty:  # the problems must pass without a mistake
            for problem in sorted({FAULTS[name][1] for name in names}):
                done = subprocess.run([args.program, problem], capture_output=True, text=True,
                                      env={**os.environ, "LD_PRELOAD": args.faulty, "SATTN_GPU_FAULT": "none"})
                if done.returncode:
                    sys.exit(f"mutate_library.py: {problem} fails without a mistake: {first_complaint(done)}")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for name, done in zip(names, pool.map(lambda name: attempt(args, name, folder), names)):
                away += not done.returncode
                print(f"{'caught' if done.returncode else 'NOT CAUGHT':11}{name}: {first_complaint(done) if done.returncode else ''}")
    print(f"every one of {len(names)} mistakes is caught" if not away else f"{away} mistakes got away")
    return 1 if away else 0


if __name__ == "__main__":
    sys.exit(main())
