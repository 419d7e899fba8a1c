"""lm-evaluation-harness with a model named `sattn`: a Hugging Face model whose attention is replaced.

    python -m sattn.evaluation.harness run --model sattn --model_args pretrained=Qwen/Qwen3-8B,mode=stochastic,window=128,seed=0 --tasks boolq

Everything after the module's name goes to the harness as it is. Beside the arguments of the harness's own `hf` model, model_args takes those of
sattn.transformers.configure (mode, window, window_swa, window_sa, block, top_k, seed, sink_tokens, decode, ...) and

    tail=windowed   the answer is scored in the same pass that reads the prompt, as `hf` does (default)
    tail=full       the prompt is read in the mode under test, the answer's tokens attend to the whole cache

Generation reads the prompt in the mode under test and decodes with `decode` (full by default). A batch is padded on the right with an attention mask,
so that a score does not depend on what else is in the batch.
"""

import torch
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm

import sattn.transformers

from . import grid, score

_OWN = ("mode", "window", "window_swa", "window_sa", "block", "top_k", "seed", "sink_tokens", "decode", "order_length", "hybrid", "backend")


def batches(inputs, size):
    """Positions of `inputs` in batches of at most `size`, longest first, so that little of a batch is padding."""
    order = sorted(range(len(inputs)), key=lambda index: (-len(inputs[index]), inputs[index]))
    return [order[start : start + size] for start in range(0, len(order), size)]


@register_model("sattn")
class StochasticAttentionLM(HFLM):
    def __init__(self, pretrained, tail="windowed", batch_size=1, **arguments):
        if tail not in grid.PROTOCOLS:
            raise ValueError(f"tail: {tail!r} is none of {', '.join(grid.PROTOCOLS)}")
        self._attention = {"mode": "full", **{name: arguments.pop(name) for name in _OWN if name in arguments}}
        self._tail = tail
        if not isinstance(batch_size, int) and not str(batch_size).isdigit():
            raise ValueError(f"batch_size: {batch_size!r} is not a number")
        sattn.transformers.register()
        super().__init__(pretrained=pretrained, attn_implementation="sattn", batch_size=int(batch_size), **arguments)
        self._switch("mode")

    def _switch(self, what):
        sattn.transformers.configure(self.model, **(self._attention if what == "mode" else {"mode": "full"}))

    def _windowed(self, inputs):
        """Logits of several inputs (lists of tokens) in one right-padded pass, each [tokens, vocabulary]."""
        longest = max(map(len, inputs))
        tokens = torch.zeros(len(inputs), longest, dtype=torch.long)
        mask = torch.zeros(len(inputs), longest, dtype=torch.long)
        for row, line in enumerate(inputs):
            tokens[row, : len(line)] = torch.tensor(line)
            mask[row, : len(line)] = 1
        padded = {} if bool(mask.all()) else {"attention_mask": mask.to(self.device)}
        logits = self.model(tokens.to(self.device), use_cache=False, **padded).logits
        return [logits[row, : len(line)] for row, line in enumerate(inputs)]

    def _full_tail(self, line, tail):
        if tail >= len(line):
            raise ValueError("tail: this task scores texts without a prompt, so there is nothing to read before the tail; use tail=windowed")
        tokens = torch.tensor([line], device=self.device)
        logits = score.tail_logits(self.model, tokens, tail, "full", self._switch)[0]
        self._switch("mode")
        return logits

    @staticmethod
    def _answer(logits, continuation):
        targets = torch.tensor(continuation, device=logits.device)
        scores = torch.log_softmax(logits[-len(continuation) :].float(), dim=-1)
        likelihood = scores.gather(1, targets[:, None]).sum().item()
        return likelihood, bool((scores.argmax(-1) == targets).all())

    @torch.no_grad()
    def _loglikelihood_tokens(self, requests, disable_tqdm=False, override_bs=None):
        # Requests that differ in the last token only, as the choices A to D do, share their input: one pass serves them all.
        shared = {}
        for index, (_, context, continuation) in enumerate(requests):
            line = (context + continuation)[-(self.max_length + 1) :][:-1]
            key = (tuple(line), len(continuation) if self._tail == "full" else 0)
            shared.setdefault(key, []).append(index)
        keys, answers = list(shared), [None] * len(requests)
        size = 1 if self._tail == "full" else self.batch_size
        with tqdm(total=len(requests), disable=disable_tqdm, desc="loglikelihood") as progress:
            for batch in batches([key[0] for key in keys], size):
                lines = [list(keys[position][0]) for position in batch]
                found = [self._full_tail(lines[0], keys[batch[0]][1])] if self._tail == "full" else self._windowed(lines)
                for position, logits in zip(batch, found):
                    for index in shared[keys[position]]:
                        request, _, continuation = requests[index]
                        answers[index] = self._answer(logits, continuation)
                        if request is not None:
                            self.cache_hook.add_partial("loglikelihood", request, answers[index])
                        progress.update(1)
        return answers


def main():
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    main()
