"""Trains a small decoder-only model with full, SWA, SA or gated SA+SWA layers.

    python -m sattn.pretrain configs/small-recall.toml --out runs/recall
    python -m sattn.pretrain configs/small-recall.toml --out runs/recall --modes full,swa,sa,gated --seeds 0,1,2

The first form trains what the configuration says. The second trains every mode with every seed, everything else equal, and compares them: table.md,
summary.json and curves.svg. Each run has a folder with log.jsonl and checkpoint.pt; the same command again continues what was stopped.
"""

import argparse
import sys

from .training import config as configuration


def parser():
    made = argparse.ArgumentParser(prog="python -m sattn.pretrain", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("config", metavar="CONFIG", help="configuration file (TOML)")
    made.add_argument("--out", default="run", help="folder of the run or runs (default: %(default)s)")
    made.add_argument("--modes", help="compare these: any of " + ",".join(configuration.MODES))
    made.add_argument("--seeds", default="0", help="seeds of a comparison (default: 0)")
    made.add_argument("--set", action="append", default=[], metavar="SECTION.NAME=VALUE", help="changes one setting of the configuration; may be repeated")
    made.add_argument("--until", type=int, help="stop after this step, with a checkpoint")
    made.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    made.add_argument("--threads", type=int, default=0, help="threads of PyTorch; 0: its own choice")
    made.add_argument("--quiet", action="store_true", help="no progress bars")
    return made


def main(arguments=None):
    options = parser().parse_args(arguments)
    config = configuration.read(options.config, options.set)

    import torch
    from tqdm import tqdm

    from .training import compare, loop, model

    if options.threads > 0:
        torch.set_num_threads(options.threads)

    def train(chosen, folder, name):
        run = loop.Run(chosen, folder, options.device)
        print(f"{folder}: {model.parameters(run.model) / 1e6:.2f} M parameters, step {run.step} of {chosen.train.steps}")
        with tqdm(total=chosen.train.steps, initial=run.step, desc=name, unit="step", disable=options.quiet, file=sys.stderr, mininterval=1.0) as progress:
            return run.run(options.until, progress)

    if not options.modes:
        log = train(config, options.out, str(config.attention.mode))
        print(f"loss at step {log[-1]['step']}: {log[-1]['loss']:.4f}, {log[-1]['seconds']:.1f} s, {log[-1]['cpu_seconds']:.1f} s of CPU")
        return 0
    modes, seeds = options.modes.split(","), [int(seed) for seed in options.seeds.split(",")]
    for seed in seeds:
        for mode in modes:
            train(loop.with_mode(config, mode, seed), compare.run_folder(options.out, mode, seed), f"{mode}, seed {seed}")
    print(compare.write(options.out, modes, seeds, f"{config.data.kind}: n = {config.model.context}, w = {config.attention.window}"))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        sys.exit(f"python -m sattn.pretrain: {error}")
