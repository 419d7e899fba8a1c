"""Several modes and seeds of one configuration: their final losses as a table, their curves as a plot."""

import json
import math
import pathlib

from . import loop

_TITLES = {"full": "full", "swa": "SWA", "sa": "SA", "gated": "SA+SWA gated"}
_COLOURS = {"full": "black", "swa": "tab:blue", "sa": "tab:red", "gated": "tab:green"}


def run_folder(folder, mode, seed):
    return pathlib.Path(folder) / f"{mode}-{seed}"


def collect(folder, modes, seeds):
    """{mode: [log of a seed, ...]} of the runs that are there."""
    logs = {mode: [loop.read_log(run_folder(folder, mode, seed)) for seed in seeds] for mode in modes}
    return {mode: [log for log in found if log] for mode, found in logs.items() if any(found)}


def mean_and_deviation(values):
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, None
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _shown(values, factor=1.0, digits=3):
    mean, deviation = mean_and_deviation([factor * value for value in values])
    return f"{mean:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")


def _final(log):
    evaluated = [line for line in log if "validation_loss" in line]
    return evaluated[-1] if evaluated else None


def table(logs):
    """Markdown: validation loss and accuracy at the end, mean ± standard deviation over seeds, and every seed."""
    lines = ["| attention | validation loss | accuracy % | training loss, last tenth | loss of each seed |", "|---|---|---|---|---|"]
    for mode, found in logs.items():
        ends = [end for end in map(_final, found) if end is not None]
        if not ends:
            continue
        tails = [log[-max(1, len(log) // 10) :] for log in found]
        training = [sum(line["loss"] for line in tail) / len(tail) for tail in tails]
        losses = [end["validation_loss"] for end in ends]
        lines.append(f"| {_TITLES.get(mode, mode)} | {_shown(losses)} | {_shown([end['validation_accuracy'] for end in ends], 100, 1)} | {_shown(training)} | "
                     + ", ".join(f"{loss:.3f}" for loss in losses) + " |")
    return "\n".join(lines)


def plot(logs, path, title):
    """Validation loss over steps: the mean over seeds, and the range of the seeds as a band."""
    import matplotlib

    matplotlib.use("Agg")
    # Text as text and no date: small files that change only when the figures do.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "sattn"})
    import matplotlib.pyplot as pyplot

    figure, axis = pyplot.subplots(figsize=(5.6, 3.8))
    for mode, found in logs.items():
        curves = [{line["step"]: line["validation_loss"] for line in log if "validation_loss" in line} for log in found]
        steps = sorted(set.intersection(*(set(curve) for curve in curves)))
        columns = [[curve[step] for curve in curves] for step in steps]
        colour = _COLOURS.get(mode)
        axis.plot(steps, [sum(column) / len(column) for column in columns], "--" if mode == "gated" else "-", color=colour, label=_TITLES.get(mode, mode))
        axis.fill_between(steps, [min(column) for column in columns], [max(column) for column in columns], color=colour, alpha=0.2, linewidth=0)
    axis.set_xlabel("step")
    axis.set_ylabel("validation loss, nats")
    axis.set_title(title, fontsize=10)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def write(folder, modes, seeds, title):
    """table.md, summary.json and curves.svg in the folder; returns the table."""
    folder, logs = pathlib.Path(folder), collect(folder, modes, seeds)
    shown = table(logs)
    (folder / "table.md").write_text(shown + "\n", encoding="utf-8")
    ends = {mode: [_final(log) for log in found] for mode, found in logs.items()}
    (folder / "summary.json").write_text(json.dumps(ends, indent=1) + "\n")
    if any(end is not None for found in ends.values() for end in found):
        plot(logs, folder / "curves.svg", title)
    return shown
