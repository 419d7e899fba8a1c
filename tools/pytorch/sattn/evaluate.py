"""What does a model lose when its attention is replaced, without training?

    python -m sattn.evaluate MODEL --text mansfieldpark.txt --n 128,2048 --window 64,256 --contexts 48,2

MODEL is a Hugging Face folder or a GGUF file. Negative log-likelihood (nats per token) and top-1 accuracy of the last tokens of evenly spaced
windows of the text, over n inputs and windows of w keys, for full attention, SWA, SA, UNION (w/2 each) and MoBA (two blocks of w/2), with and without
sink tokens. Writes a table, results.json and plot.svg. Stopped and started again, it goes on where it was.
"""

import argparse
import pathlib
import sys

from .evaluation import grid, models, report, text


def _numbers(minimum):
    def parse(word):
        values = [int(part) for part in word.split(",")]
        if min(values) < minimum:
            raise argparse.ArgumentTypeError(f"{min(values)} is less than {minimum}")
        return values

    return parse


def _words(allowed):
    def parse(word):
        values = word.split(",")
        for value in values:
            if value not in allowed:
                raise argparse.ArgumentTypeError(f"{value!r} is none of {', '.join(allowed)}")
        return values

    return parse


def parser():
    made = argparse.ArgumentParser(prog="python -m sattn.evaluate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("model", metavar="MODEL", help="Hugging Face folder, or GGUF file")
    made.add_argument("--text", required=True, help="text file (UTF-8)")
    made.add_argument("--skip", type=int, default=0, metavar="CHARACTERS", help="leave out so many characters at the start of the text (default: 0)")
    made.add_argument("--out", default="evaluation", help="folder of results.json, table.md and plot.svg (default: %(default)s)")
    made.add_argument("--n", type=_numbers(2), default=[128, 2048], help="input lengths (default: 128,2048)")
    made.add_argument("--window", type=_numbers(2), default=[64, 256], help="windows w; those not below n are left out (default: 64,256)")
    made.add_argument("--modes", type=_words(grid.MODES), default=list(grid.MODES), help="default: " + ",".join(grid.MODES))
    made.add_argument("--sink-tokens", type=_numbers(0), default=[0, 4], help="first tokens that stay visible (default: 0,4)")
    made.add_argument("--tail", type=_words(grid.PROTOCOLS), default=["windowed"],
                      help="what the scored tokens attend with: windowed (the mode under test) or full (the whole cache), or both (default: windowed)")
    made.add_argument("--score", type=int, default=0, help="how many last tokens of a window are scored; 0: all of them (default: 0)")
    made.add_argument("--seeds", type=_numbers(0), default=[0, 1, 2], help="seeds of SA and UNION (default: 0,1,2)")
    made.add_argument("--contexts", type=_numbers(1), default=[1], help="windows of the text, one number or one per n (default: 1)")
    made.add_argument("--hybrid", default="keep", choices=("keep", "replace"), help="sliding-window layers that the model has of its own (default: keep)")
    made.add_argument("--batch-tokens", type=int, default=2048, help="tokens in one forward pass, at least one window (default: %(default)s)")
    made.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    made.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    made.add_argument("--threads", type=int, default=0, help="threads of PyTorch; 0: its own choice")
    made.add_argument("--quiet", action="store_true", help="no progress bars")
    return made


def _check(options, made):
    if len(options.contexts) == 1:
        options.contexts *= len(options.n)
    if len(options.contexts) != len(options.n):
        made.error(f"--contexts has {len(options.contexts)} numbers, --n has {len(options.n)}: give one number, or one per n")
    if options.skip < 0:
        made.error(f"--skip {options.skip} is negative")
    if options.score < 0:
        made.error(f"--score {options.score} is negative")
    if options.score > min(options.n):
        made.error(f"--score {options.score} is more than the smallest n, {min(options.n)}")
    if "full" in options.tail and not 0 < options.score < min(options.n):
        made.error("--tail full needs --score, less than every n: the tokens before them are the prompt")


def main(arguments=None):
    made = parser()
    options = made.parse_args(arguments)
    _check(options, made)

    import torch
    from tqdm import tqdm

    if options.threads > 0:
        torch.set_num_threads(options.threads)
    model, tokenizer = models.load(options.model, options.dtype, options.device)
    content = text.read(options.text)[options.skip :]
    ids = tokenizer(content, add_special_tokens=False)["input_ids"]
    contexts = dict(zip(options.n, options.contexts))
    settings = {"model": pathlib.Path(options.model).name, "text": pathlib.Path(options.text).name, "text_sha256": text.fingerprint(content),
                "score": options.score, "dtype": options.dtype, "hybrid": options.hybrid, "contexts": {str(n): count for n, count in contexts.items()}}
    wanted = grid.cases(options.n, options.window, options.modes, options.sink_tokens, options.tail, options.seeds)
    if not wanted:
        made.error("nothing to do: every window is n or more")
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    results = grid.Results(out / "results.json", settings)
    grid.run(model, ids, wanted, contexts, options.score, options.batch_tokens, options.hybrid, results,
             lambda **words: tqdm(disable=options.quiet, file=sys.stderr, **words))

    shown = report.table(results.rows)
    print(shown)
    print("NLL in nats per token / top-1 %, ± one standard deviation over seeds")
    (out / "table.md").write_text(shown + "\n", encoding="utf-8")
    report.plot(results.rows, out / "plot.svg", f"{settings['model']} on {settings['text']}")
    print(f"written: {out / 'results.json'}, {out / 'table.md'}, {out / 'plot.svg'}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        sys.exit(f"python -m sattn.evaluate: {error}")
