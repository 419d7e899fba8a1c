#!/usr/bin/env python3
"""gpu_report.py [--tiny] [--out FILE] FOLDER       a table of what tools/gpu-check.sh measured
gpu_report.py --nvidia-opencl < INFO.json         OpenCL devices of NVIDIA in `sattn info --json`, one a line

A rate is judged by the least of two bounds: the measured peak of the matrix units (of fused multiply-adds in fp32), and
the measured bandwidth times the operations per byte when Q, K, V and O cross the bus once each. For SA with as many
key/value heads as query heads that is w / 2 operations per byte."""
import argparse
import glob
import json
import os
import sys

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}


def nvidia_opencl():
    for backend in json.load(sys.stdin)["backends"]:
        for device in backend["devices"] or ():
            if backend["name"] == "opencl" and "NVIDIA" in (device["name"] + device["driver"]).upper():
                print(device["id"])


def load(folder):
    """(file, row, run) of every row; run: what stands outside the rows."""
    rows = []
    for name in sorted(glob.glob(os.path.join(folder, "bench-*.json"))):
        with open(name, encoding="utf-8") as file:
            run = json.load(file)
        rows += [(os.path.basename(name), row, run) for row in run["rows"]]
    return rows


def traffic(row):
    """Bytes of Q, O, K, V, and of what backward reads and writes beside."""
    heads, shared, d, batch = row["heads"], row["kv_heads"], row["head_dim"], row["batch"]
    queries, keys = batch * heads * row["queries"] * d, batch * shared * row["n"] * d
    times = 1 if row["pass"] == "forward" else 2
    return BYTES[row["dtype"]] * 2 * (queries + keys) * times


def peak(row, run):
    matrix = (run["peak_mma_gflops"] or {}).get(row["dtype"])
    return matrix or run["peak_fma_gflops"]


def bound(row, run):
    """GFLOP/s."""
    per_pair = 4 if row["pass"] == "forward" else 10
    operations = row["visible_pairs"] * per_pair * row["head_dim"]
    by_memory = (run["bandwidth_gbytes"] or float("inf")) * operations / traffic(row)
    return min(peak(row, run) or float("inf"), by_memory)


def key(row):
    return tuple(row[k] for k in ("pass", "dtype", "head_dim", "heads", "kv_heads", "batch", "queries", "n"))


def peer_times(folder):
    """(mode, pass, dtype, head_dim, heads, kv_heads, n) -> {name: seconds}"""
    name = os.path.join(folder, "peers.json")
    if not os.path.exists(name):
        return {}
    times = {}
    with open(name, encoding="utf-8") as file:
        for row in json.load(file)["rows"]:
            at = tuple(row[k] for k in ("mode", "pass", "dtype", "head_dim", "heads", "kv_heads", "n"))
            times.setdefault(at, {})[row["name"]] = row["seconds_min"]
    return times


def number(value, form):
    return "-" if value is None else form % value


def table(rows, peers):
    yield "| mode | pass | dtype | d | heads | batch | queries | n | ms | TFLOP/s | of bound | SA and others vs full | peers, ms |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for _, row, run in rows:
        at = (row["mode"],) + tuple(row[k] for k in ("pass", "dtype", "head_dim", "heads", "kv_heads", "n"))
        others = peers.get(at, {}) if row["queries"] == row["n"] and row["batch"] == 1 else {}
        yield "| %s | %s | %s | %d | %d/%d | %d | %d | %d | %.3f | %.2f | %s | %s | %s |" % (
            row["mode"], row["pass"], row["dtype"], row["head_dim"], row["heads"], row["kv_heads"], row["batch"], row["queries"], row["n"],
            row["seconds_min"] * 1e3, row["useful_gflops"] * 1e-3, number(100 * row["useful_gflops"] / bound(row, run), "%.1f %%"),
            number(row["speedup_over_full"], "%.2fx"), ", ".join("%s %.3f" % (n, s * 1e3) for n, s in sorted(others.items())) or "-")


def requirements(rows):
    """(what, got, required) of everything that a figure is required of."""
    of = {(row["mode"],) + key(row): row for _, row, _ in rows}
    for _, row, run in rows:
        forward = row["pass"] == "forward" and row["queries"] == row["n"]
        label = "%s %s d = %d, heads %d/%d, n = %d" % (row["mode"], row["dtype"], row["head_dim"], row["heads"], row["kv_heads"], row["n"])
        if row["mode"] == "full" and forward and row["head_dim"] == 128 and row["n"] >= 8192:
            yield label + ": share of the peak", row["useful_gflops"] / peak(row, run), 0.50
        if row["mode"] == "full" and row["queries"] == 1:
            yield label + ", batch %d: share of the bandwidth" % row["batch"], traffic(row) / row["seconds_min"] * 1e-9 / run["bandwidth_gbytes"], 0.70
        full = of.get(("full",) + key(row))
        if row["mode"] != "sa" or not forward or not full:
            continue
        if row["n"] >= 8192 and (row["heads"] == row["kv_heads"] or row["heads"] == 4 * row["kv_heads"]):
            yield label + ": useful rate over full's", row["useful_gflops"] / full["useful_gflops"], 0.50 if row["heads"] == row["kv_heads"] else 0.60
        least = {2048: 1.4, 8192: 5.5, 32768: 22.0}.get(row["n"])
        if least:
            yield label + ": time of full over its own", full["seconds_min"] / row["seconds_min"], least


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--nvidia-opencl", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("folder", nargs="?")
    args = parser.parse_args()
    if args.nvidia_opencl:
        return nvidia_opencl()
    rows = load(args.folder or parser.error("which folder?"))
    if not rows:
        sys.exit(f"gpu_report.py: no bench-*.json with rows in {args.folder}")
    run = rows[0][2]
    lines = ["# " + run["device"], "", "Peaks, measured: fused multiply-add %s GFLOP/s; memory %s GB/s; matrix units %s GFLOP/s." % (
        number(run["peak_fma_gflops"], "%.0f"), number(run["bandwidth_gbytes"], "%.0f"),
        ", ".join("%s %.0f" % item for item in sorted((run["peak_mma_gflops"] or {}).items())) or "-"), ""]
    lines += table(rows, peer_times(args.folder))
    if not args.tiny:
        lines += ["", "| required | got | |", "|---|---|---|"]
        lines += ["| %s at least %.2f | %.2f | %s |" % (what, least, got, "" if got >= least else "**missed**") for what, got, least in requirements(rows)]
    text = "\n".join(lines) + "\n"
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)
    return 0


sys.exit(main())
