#!/usr/bin/env python3
"""Mutation tests of the gradients on tensor cores: each mistake under gpu_fault("grad_...") must make cuda_library_grads fail.

    mutate_grads.py --program FILE --faulty LIBCUDA [NAME...]                       kernels compiled for the host
    mutate_grads.py --program FILE --nvcc FILE --source DIR [--few] [NAME...]       nvcc's PTX

See mutate_library.py, which does the work."""
import os
import re
import sys

import mutate_library

KERNEL = "attend_mma_grad_64"
# name -> (kernel file, the problem that must show it)
FAULTS = {
    # copies and fragments
    "grad_no_copy_wait": (KERNEL, "exact-sa"), "grad_no_barrier": (KERNEL, "exact-sa"), "grad_stale_stats": (KERNEL, "sa"),
    "grad_no_swizzle": (KERNEL, "sa"), "grad_fragment_swapped": (KERNEL, "exact-full"), "grad_staged_unordered": (KERNEL, "exact-sa"),
    # who sees whom
    "grad_key_band_narrow": ("grad_ranges", "exact-narrow"), "grad_key_positions_narrow": (KERNEL, "exact-swa"),
    "grad_mask_omitted": (KERNEL, "exact-sa"), "grad_skip_early": (KERNEL, "exact-full"), "grad_union_twice": (KERNEL, "exact-union"),
    "grad_sinks_banded": (KERNEL, "exact-swa"), "grad_group_first_head": (KERNEL, "exact-swa"),
    "grad_missing_keys_seen": (KERNEL, "missing-keys"),
    # formulas
    "grad_delta_missing": ("grad_rows", "sa"), "grad_lse_grad_missing": ("grad_rows", "sa"), "grad_lse_of_a_part": ("grad_rows", "union"),
    "grad_gate_open": ("grad_rows", "gated"), "grad_rows_off_diagonal": ("grad_rows", "sa"), "grad_scale_missing": (KERNEL, "sa"),
    "grad_slope_missing": (KERNEL, "gated"), "grad_gate_forgotten": (KERNEL, "gated"), "grad_delta_rounded": ("grad_rows", "exact-one"),
    # sums of several passes, and garbage
    "grad_partial_lost": (KERNEL, "exact-union"), "grad_nonfinite_ignored": (KERNEL, "bad-keys"),
    "grad_seen_nonfinite_lost": (KERNEL, "bad-queries"),
}
# a copy in flight, a pair too few, a formula, garbage
FEW = ["grad_no_copy_wait", "grad_key_band_narrow", "grad_lse_of_a_part"]


def unlisted():
    """Names in the kernels that the table lacks, and the other way round."""
    kernels = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "cuda", "kernels")
    found = set()
    for file in os.listdir(kernels):
        if "grad" in file:
            with open(os.path.join(kernels, file), encoding="utf-8") as text:
                found.update(re.findall(r'gpu_fault\("(\w+)"\)', text.read()))
    return found ^ set(FAULTS)


if __name__ == "__main__":
    mutate_library.FAULTS, mutate_library.FEW, mutate_library.unlisted = FAULTS, FEW, unlisted
    sys.exit(mutate_library.main())
