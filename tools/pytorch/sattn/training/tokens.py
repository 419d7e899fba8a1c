"""Text files as one row of token numbers, for data.kind = "tokens".

    python -m sattn.training.tokens TOKENIZER OUT.npy TEXT...

TOKENIZER is a Hugging Face folder or a GGUF file. Every text is followed by the end-of-text token.
"""

import pathlib
import sys

import numpy


def encode(tokenizer, paths):
    row = []
    for path in paths:
        row += tokenizer(pathlib.Path(path).read_text(encoding="utf-8"), add_special_tokens=False)["input_ids"]
        if tokenizer.eos_token_id is not None:
            row.append(tokenizer.eos_token_id)
    return numpy.array(row, dtype=numpy.uint16 if max(row, default=0) < 1 << 16 else numpy.uint32)


def main(arguments=None):
    words = sys.argv[1:] if arguments is None else arguments
    if len(words) < 3:
        sys.exit(__doc__)
    from transformers import AutoTokenizer

    source = pathlib.Path(words[0])
    if source.suffix == ".gguf":
        tokenizer = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name)
    else:
        tokenizer = AutoTokenizer.from_pretrained(words[0])
    row = encode(tokenizer, words[2:])
    numpy.save(words[1], row)
    print(f"{words[1]}: {len(row)} tokens, largest {row.max()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
