"""A cloze task from a text, for lm-evaluation-harness without a network.

    python -m sattn.evaluation.cloze TEXT FOLDER [--items N] [--words N] [--seed S]

Writes FOLDER/cloze_novels.yaml and FOLDER/cloze.jsonl. An item is a passage of the text that stops before a word which the passage has used before,
as in LAMBADA: the word is to be predicted. The harness reports the perplexity of the word and how often it is the most likely continuation.
"""

import argparse
import json
import pathlib
import random
import re
import sys

_TASK = """task: cloze_novels
dataset_path: json
dataset_kwargs:
  data_files:
    test: {path}
test_split: test
output_type: loglikelihood
doc_to_text: "{{{{passage}}}}"
doc_to_target: "{{{{' ' + word}}}}"
metric_list:
  - metric: perplexity
    aggregation: perplexity
    higher_is_better: false
  - metric: acc
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1
"""


def items(text, count, words, seed):
    """[{passage, word}]: the word ends a sentence, has five letters or more, and stands in the passage once before at least."""
    tokens = text.split()
    candidates = []
    for end in range(words, len(tokens)):
        match = re.fullmatch(r"([A-Za-z]{5,})[.!?]", tokens[end])
        if match and any(re.fullmatch(rf"{match[1]}\W*", other) for other in tokens[end - words : end - 10]):
            candidates.append((end, match[1]))
    if not candidates:
        raise ValueError(f"text: no passage of {words} words ends in a word that it has used before")
    chosen = sorted(random.Random(seed).sample(candidates, min(count, len(candidates))))
    return [{"passage": " ".join(tokens[end - words : end]), "word": word} for end, word in chosen]


def write(folder, found):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "cloze.jsonl"
    data.write_text("".join(json.dumps(item) + "\n" for item in found), encoding="utf-8")
    (folder / "cloze_novels.yaml").write_text(_TASK.format(path=data.resolve()), encoding="utf-8")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m sattn.evaluation.cloze", description=__doc__.split("\n")[0])
    parser.add_argument("text")
    parser.add_argument("folder")
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--words", type=int, default=90, help="words of a passage (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    found = items(pathlib.Path(options.text).read_text(encoding="utf-8"), options.items, options.words, options.seed)
    write(options.folder, found)
    print(f"{options.folder}/cloze_novels.yaml: {len(found)} items")
    return 0


if __name__ == "__main__":
    sys.exit(main())
