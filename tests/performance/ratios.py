#!/usr/bin/env python3
"""Is anything a quarter slower than it was? Compares times inside one run, never with a clock of another machine.

    ratios.py TOOL [--limits FILE] [--rounds N] [--print]

Runs `TOOL bench` a few times and computes ratios of its rows: parts against the whole, one mode against another, shares of the peak that the
same run measured. A ratio is red when it is more than a quarter worse than the figure in the limits file. Other processes disturb one round or
another, so the best of the rounds counts, and a good round ends it early. --print shows the figures to write into the limits file.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

SLOWER = 1.25

# Each run of the bench once per round: name, arguments.
RUNS = [
    ("causal", "--modes full,swa,sa,union,gated --n 2048 --repeat 5 --backward"),
    ("two-way", "--modes sa --no-causal --n 2048,8192 --repeat 5"),
    ("long", "--modes full,sa --n 8192 --repeat 2"),
    ("storage", "--modes sa --n 2048 --head-dim 64,128 --dtype fp32,bf16 --repeat 5"),
    ("grouped", "--modes sa --n 2048 --head-dim 128 --heads 16 --kv-heads 4 --repeat 5"),
    ("blocks", "--modes sa,moba --n 8192 --repeat 5"),
    ("decode", "--modes full --n 8192,32768 --queries 1 --repeat 5"),
]


def bench(tool, arguments):
    command = [tool, "bench", "--backend", "opencl", "--json", *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def pick(report, **wanted):
    rows = [row for row in report["rows"] if all(row[name] == value for name, value in wanted.items())]
    if len(rows) != 1:
        sys.exit(f"{len(rows)} rows of the bench have {wanted}")
    return rows[0]


def seconds(report, **wanted):
    return pick(report, **wanted)["seconds_min"]


def share(report, **wanted):
    return pick(report, **wanted)["fraction_of_peak"]


def measure(tool):
    """Name -> figure. Times over times: small is good. Shares of the peak are turned round to be so as well."""
    r = {name: bench(tool, arguments) for name, arguments in RUNS}
    causal = dict(report=r["causal"])
    apart = seconds(**causal, mode="sa", **{"pass": "forward"}) + seconds(**causal, mode="swa", **{"pass": "forward"})
    forward = {"pass": "forward"}
    backward = {"pass": "backward"}
    long_sa = pick(r["long"], mode="sa")
    return {
        "peak / full, causal, 2048": 1 / share(**causal, mode="full", **forward),
        "peak / sa, causal, 2048": 1 / share(**causal, mode="sa", **forward),
        "peak / sa, two-way, 2048": 1 / share(r["two-way"], n=2048),
        "peak / sa, two-way, 8192": 1 / share(r["two-way"], n=8192),
        "sa / full, 2048": seconds(**causal, mode="sa", **forward) / seconds(**causal, mode="full", **forward),
        "sa / full, 8192": long_sa["seconds_min"] / seconds(r["long"], mode="full"),
        "union / (sa + swa)": seconds(**causal, mode="union", **forward) / apart,
        "gated / (sa + swa)": seconds(**causal, mode="gated", **forward) / apart,
        "sa backward / forward": seconds(**causal, mode="sa", **backward) / seconds(**causal, mode="sa", **forward),
        "full backward / forward": seconds(**causal, mode="full", **backward) / seconds(**causal, mode="full", **forward),
        "sa: share at d = 64 / d = 128": share(r["storage"], dtype="fp32", head_dim=64) / share(r["storage"], dtype="fp32", head_dim=128),
        "sa: bf16 / fp32, d = 64": seconds(r["storage"], dtype="bf16", head_dim=64) / seconds(r["storage"], dtype="fp32", head_dim=64),
        "sa: peak / groups of 4, d = 128": 1 / share(r["grouped"], mode="sa"),
        "moba / sa, per pair, 8192": pick(r["blocks"], mode="sa")["useful_gflops"] / pick(r["blocks"], mode="moba")["useful_gflops"],
        "permutation / 4 % of sa, 8192": long_sa["permute_seconds"] / long_sa["seconds_min"] / 0.04,
        "decode 32768 / 8192 / 4": seconds(r["decode"], n=32768) / seconds(r["decode"], n=8192) / 4,
        "decode 8192 / sa, two-way, 2048": seconds(r["decode"], n=8192) / seconds(r["two-way"], n=2048),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--limits", type=Path, default=Path(__file__).with_name("ratios.json"))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--print", action="store_true", dest="show")
    args = parser.parse_args()
    best = {}
    usual = {} if args.show else json.loads(args.limits.read_text())
    for _ in range(args.rounds):
        for name, figure in measure(args.tool).items():
            best[name] = min(figure, best.get(name, figure))
        if not args.show and all(best[name] <= usual[name] * SLOWER for name in best):
            break
    if args.show:
        print(json.dumps({name: round(figure, 3) for name, figure in best.items()}, indent=2))
        return 0
    slower = 0
    for name, figure in best.items():
        red = not figure <= usual[name] * SLOWER
        slower += red
        print(f"{'SLOWER ' if red else 'ok     '} {name:36s} {figure:7.3f}, usually {usual[name]:7.3f}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
