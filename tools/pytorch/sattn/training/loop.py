"""One training run in one folder: log.jsonl, checkpoint.pt, config.json. Stopped and started again it continues, to the bit."""

import dataclasses
import json
import math
import os
import pathlib
import time

import torch

from . import config as configuration
from . import data, model

# Validation of a model that trains under fresh permutations draws fresh ones too, from steps that no training reaches.
_VALIDATION_STEP = 1 << 31


def learning_rate(train, step):
    """Linear warm-up, then a cosine down to final_rate times the peak."""
    if step < train.warmup:
        return train.learning_rate * (step + 1) / train.warmup
    share = (step - train.warmup) / max(1, train.steps - train.warmup)
    return train.learning_rate * (train.final_rate + (1 - train.final_rate) * 0.5 * (1 + math.cos(math.pi * share)))


class Run:
    def __init__(self, config, folder, device="cpu"):
        self.config, self.folder, self.device = config, pathlib.Path(folder), device
        self.folder.mkdir(parents=True, exist_ok=True)
        self.step, self.source = 0, data.make(config)
        self.model = model.Decoder(config).to(device)
        decayed = [parameter for parameter in self.model.parameters() if parameter.dim() > 1]
        others = [parameter for parameter in self.model.parameters() if parameter.dim() <= 1]
        train = config.train
        self.optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": train.weight_decay}, {"params": others, "weight_decay": 0.0}],
                                           lr=train.learning_rate, betas=(train.beta1, train.beta2))
        self._resume()

    def _resume(self):
        path = self.folder / "checkpoint.pt"
        tables = configuration.to_tables(self.config)
        if path.exists():
            stored = torch.load(path, map_location=self.device, weights_only=True)
            if json.loads(stored["config"]) != json.loads(json.dumps(tables)):
                raise ValueError(f"out: {self.folder} holds a run with another configuration, see its config.json")
            self.model.load_state_dict(stored["model"])
            self.optimizer.load_state_dict(stored["optimizer"])
            self.step = stored["step"]
        (self.folder / "config.json").write_text(json.dumps(tables, indent=1) + "\n")
        # What was logged after the checkpoint happens again.
        self.log = [line for line in read_log(self.folder) if line["step"] <= self.step]
        (self.folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.log))

    def _loss(self, split, step, permutation_step):
        tokens, targets = self.source.batch(split, step, self.config.train.batch)
        half = self.config.train.dtype == "bfloat16"
        with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=half):
            return self.model.loss(tokens.to(self.device), targets.to(self.device), permutation_step)

    def train_step(self):
        """One optimiser step; the mean loss of its tokens. The permutation is drawn for the step number, so every step has its own."""
        train = self.config.train
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(train, self.step)
        self.optimizer.zero_grad(set_to_none=True)
        total, tokens = 0.0, 0
        for part in range(train.accumulate):
            loss, _, count = self._loss("train", self.step * train.accumulate + part, self.step)
            (loss / (count * train.accumulate)).backward()
            total, tokens = total + loss.item(), tokens + count
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), train.clip)
        self.optimizer.step()
        self.step += 1
        if not math.isfinite(total):
            raise ArithmeticError(f"step {self.step}: the loss is {total}")
        return total / tokens

    @torch.no_grad()
    def evaluate(self):
        """(loss, accuracy) on the validation split, the same batches every time."""
        total, hits, tokens = 0.0, 0, 0
        for index in range(self.config.train.evaluate_batches):
            loss, right, count = self._loss("validation", index, _VALIDATION_STEP + index)
            total, hits, tokens = total + loss.item(), hits + right.item(), tokens + count
        return total / tokens, hits / tokens

    def save(self):
        part = self.folder / "checkpoint.part"
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": self.step,
                    "config": json.dumps(configuration.to_tables(self.config))}, part)
        os.replace(part, self.folder / "checkpoint.pt")

    def _record(self, line):
        self.log.append(line)
        with open(self.folder / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def run(self, until=None, progress=None):
        """Trains to the end of the configuration, or only to step `until`, and leaves a checkpoint there."""
        train, last = self.config.train, min(self.config.train.steps, until or self.config.train.steps)
        started, wall = time.process_time(), time.perf_counter()
        while self.step < last:
            loss = self.train_step()
            line = {"step": self.step, "loss": loss, "cpu_seconds": time.process_time() - started, "seconds": time.perf_counter() - wall}
            if self.step % train.evaluate_every == 0 or self.step == train.steps:
                line["validation_loss"], line["validation_accuracy"] = self.evaluate()
            self._record(line)
            if self.step % train.checkpoint_every == 0 or self.step == last:
                self.save()
            if progress is not None:
                progress.update(1)
                progress.set_postfix(loss=f"{loss:.3f}", refresh=False)
        return self.log


def read_log(folder):
    path = pathlib.Path(folder) / "log.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def with_mode(config, mode, seed):
    """The same configuration with another mode and seed; the seed sets weights, batches and permutations alike."""
    return dataclasses.replace(config, attention=dataclasses.replace(config.attention, mode=mode, seed=seed), train=dataclasses.replace(config.train, seed=seed))
