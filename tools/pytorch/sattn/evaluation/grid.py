"""The settings to try, and the loop over them."""

import dataclasses
import itertools
import json
import math
import os
import pathlib

import torch

from . import score, text

MODES = ("full", "swa", "sa", "union", "moba")
PROTOCOLS = ("windowed", "full")
_RANDOM = ("sa", "union")


@dataclasses.dataclass(frozen=True)
class Case:
    """One cell of the table: w is 0 for full attention, seed None for modes without a permutation."""

    n: int
    w: int
    mode: str
    sink_tokens: int
    tail: str
    seed: int | None

    def attention(self):
        """The arguments of sattn.transformers.configure. Every mode gets the same w: UNION half of it each way, MoBA two blocks of half of it."""
        arguments = {"sink_tokens": self.sink_tokens}
        if self.mode == "full":
            return {"mode": "full"}
        if self.mode == "swa":
            return {**arguments, "mode": "sliding_window", "window": self.w}
        if self.mode == "sa":
            return {**arguments, "mode": "stochastic", "window": self.w, "seed": self.seed}
        if self.mode == "union":
            return {**arguments, "mode": "union", "window_swa": self.w - self.w // 2, "window_sa": self.w // 2, "seed": self.seed}
        return {**arguments, "mode": "moba", "block": max(1, self.w // 2), "top_k": 2}


def cases(ns, windows, modes, sink_tokens, tails, seeds):
    """Every sensible combination, full attention once per n (for it neither w nor sinks nor tail mean anything). Windows of n and more are left out."""
    found = []
    for n in ns:
        if "full" in modes:
            found.append(Case(n, 0, "full", 0, "windowed", None))
        for w, sinks, tail, mode in itertools.product(windows, sink_tokens, tails, modes):
            if mode != "full" and 2 <= w < n:
                found += [Case(n, w, mode, sinks, tail, seed) for seed in (seeds if mode in _RANDOM else [None])]
    return found


def run_case(model, case, tokens, tail, batch, hybrid, progress):
    """{nll, top1, and per window the same} of one case on windows `tokens` [windows, n + 1]. Full attention means the model as it is."""
    import sattn.transformers

    hybrid = "keep" if case.mode == "full" else hybrid

    def switch(what):
        sattn.transformers.configure(model, hybrid=hybrid, **(case.attention() if what == "mode" else {"mode": "full"}))

    nll, hits = [], []
    for start in range(0, tokens.shape[0], batch):
        part = tokens[start : start + batch].to(model.device)
        both = score.score(model, part, tail or case.n, case.tail, switch)
        nll.append(both[0].mean(1)), hits.append(both[1].mean(1))
        progress.update(part.shape[0])
    nll, hits = torch.cat(nll), torch.cat(hits)
    if not bool(torch.isfinite(nll).all()):
        raise ArithmeticError(f"{case}: the negative log-likelihood is not finite")
    return {"nll": nll.mean().item(), "top1": hits.mean().item(), "nll_windows": nll.tolist(), "top1_windows": hits.tolist()}


class Results:
    """Finished cases in a JSON file that is rewritten after every case, so that a run which was stopped goes on where it was."""

    def __init__(self, path, settings):
        self.path, self.settings, self.rows = pathlib.Path(path), settings, []
        if self.path.exists():
            stored = json.loads(self.path.read_text())
            differing = [key for key in settings if stored["settings"].get(key) != settings[key]]
            if differing:
                raise ValueError(f"out: {path} was made with {differing[0]} = {stored['settings'].get(differing[0])!r}, now it is {settings[differing[0]]!r}")
            self.rows = stored["results"]

    def has(self, case):
        return any(all(row[key] == value for key, value in dataclasses.asdict(case).items()) for row in self.rows)

    def add(self, case, result):
        self.rows.append({**dataclasses.asdict(case), **result})
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps({"settings": self.settings, "results": self.rows}, indent=1) + "\n")
        os.replace(part, self.path)


def run(model, ids, wanted, contexts, tail, tokens_per_batch, hybrid, results, progress_bar):
    """Runs every case that `results` lacks. contexts: windows per n."""
    open_cases = [case for case in wanted if not results.has(case)]
    with progress_bar(total=sum(contexts[case.n] for case in open_cases), unit="window") as progress:
        for case in open_cases:
            progress.set_description(f"n={case.n} w={case.w} {case.mode} sinks={case.sink_tokens} tail={case.tail} seed={case.seed}")
            tokens = torch.tensor(text.windows(ids, case.n, contexts[case.n]))
            batch = max(1, tokens_per_batch // case.n)
            results.add(case, run_case(model, case, tokens, tail, batch, hybrid, progress))


def summary(rows):
    """One entry per cell, seeds taken together: mean, standard deviation over seeds (None for fewer than two), standard error over windows."""
    cells = {}
    for row in rows:
        cells.setdefault((row["n"], row["w"], row["mode"], row["sink_tokens"], row["tail"]), []).append(row)
    return {key: _cell(group) for key, group in cells.items()}


def _deviation(values):
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _cell(group):
    cell = {"seeds": len(group)}
    for name in ("nll", "top1"):
        values = [row[name] for row in group]
        per_window = [sum(column) / len(group) for column in zip(*(row[f"{name}_windows"] for row in group))]
        deviation = _deviation(per_window)
        cell[name] = sum(values) / len(values)
        cell[f"{name}_seed_deviation"] = _deviation(values)
        cell[f"{name}_window_error"] = None if deviation is None else deviation / math.sqrt(len(per_window))
    return cell
