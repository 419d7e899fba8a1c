"""The results as a table and as a plot."""

from . import grid

_TITLES = {"swa": "SWA", "sa": "SA", "union": "UNION", "moba": "MoBA", "full": "full"}
_COLOURS = {"swa": "tab:blue", "sa": "tab:red", "union": "tab:green", "moba": "tab:orange"}


def _with_deviation(cell, name, factor, digits):
    deviation = cell[f"{name}_seed_deviation"]
    value = f"{factor * cell[name]:.{digits}f}"
    return value if deviation is None else f"{value} ± {factor * deviation:.{digits}f}"


def table(rows):
    """Markdown: one line per (n, w, sink tokens, tail), one column per mode, NLL in nats per token / top-1 in per cent."""
    cells = grid.summary(rows)
    modes = [mode for mode in grid.MODES if any(key[2] == mode for key in cells)]
    lines = ["| n | w | sinks | tail | " + " | ".join(_TITLES[mode] for mode in modes) + " |", "|---" * (4 + len(modes)) + "|"]
    for n, w, sinks, tail in sorted({(key[0], key[1], key[3], key[4]) for key in cells if key[2] != "full"}):
        line = []
        for mode in modes:
            cell = cells.get((n, 0, "full", 0, "windowed") if mode == "full" else (n, w, mode, sinks, tail))
            line.append("" if cell is None else f"{_with_deviation(cell, 'nll', 1, 3)} / {_with_deviation(cell, 'top1', 100, 1)}")
        lines.append(f"| {n} | {w} | {sinks} | {tail} | " + " | ".join(line) + " |")
    if len(lines) == 2:
        lines += [f"| {key[0]} | | | | {cell['nll']:.3f} / {100 * cell['top1']:.1f} |" for key, cell in sorted(cells.items())]
    return "\n".join(lines)


def plot(rows, path, title):
    """NLL over w, one panel per n and tail; broken lines have sink tokens; bars are one standard deviation over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    # Text as text and no date: small files that change only when the figures do.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "sattn"})
    import matplotlib.pyplot as pyplot

    cells = grid.summary(rows)
    panels = sorted({(key[0], key[4]) for key in cells if key[2] != "full"}) or sorted({(key[0], key[4]) for key in cells})
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.2 * len(panels) + 1.4, 3.8), squeeze=False)
    for axis, (n, tail) in zip(axes[0], panels):
        full = cells.get((n, 0, "full", 0, "windowed"))
        if full is not None:
            axis.axhline(full["nll"], color="black", linewidth=1, label="full")
        for mode, sinks in sorted({(key[2], key[3]) for key in cells if key[0] == n and key[4] == tail and key[2] != "full"}):
            points = sorted((key[1], cell) for key, cell in cells.items() if key[0] == n and key[2:] == (mode, sinks, tail))
            axis.errorbar([w for w, _ in points], [cell["nll"] for _, cell in points], [cell["nll_seed_deviation"] or 0 for _, cell in points],
                          color=_COLOURS[mode], linestyle="--" if sinks else "-", marker="o", markersize=3, capsize=2,
                          label=_TITLES[mode] + (f" +{sinks}" if sinks else ""))
        axis.set_xscale("log", base=2)
        ticks = sorted({key[1] for key in cells if key[0] == n and key[4] == tail and key[1]})
        axis.set_xticks(ticks, [str(w) for w in ticks])
        axis.set_title(f"n = {n}, tail {tail}")
        axis.set_xlabel("window w")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("NLL, nats per token")
    axes[0][-1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
