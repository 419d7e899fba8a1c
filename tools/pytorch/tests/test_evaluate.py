"""python -m sattn.evaluate: its protocols against masks given to the eager model, its bookkeeping, the harness."""

import json
import os
import struct
import subprocess
import sys
import zlib

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny  # noqa: E402

import sattn  # noqa: E402
from sattn import evaluate  # noqa: E402
from sattn.evaluation import cloze, grid, models, novels, report, score, text  # noqa: E402

N, W, TAIL, SINKS, SEED = 48, 8, 6, 2, 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def model(folder):
    return models.load(folder)


def visible(mode, layer):
    """Who sees whom, from the definitions alone."""
    query, key = torch.arange(N)[:, None], torch.arange(N)[None, :]
    order = torch.from_numpy(sattn.permutation(N, seed=SEED, layer=layer).astype("int64"))
    slot = torch.empty(N, dtype=torch.long)
    slot[order] = torch.arange(N)
    near = {"full": torch.ones(N, N, dtype=torch.bool), "swa": query - key < W, "sa": (slot[query] - slot[key]).abs() < W,
            "union": (query - key < W // 2) | ((slot[query] - slot[key]).abs() < W // 2)}[mode]
    return (near | (key < SINKS if mode != "full" else False)) & (key <= query)


def reference_nll(folder, tokens, mode, protocol):
    """The eager model under a mask of its own in each layer. The slots of the prompt's order are those of the whole order without the tail."""
    from transformers import AutoModelForCausalLM

    eager = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    for number, layer in enumerate(eager.model.layers):
        seen = visible(mode, number)
        if protocol == "full":
            prompt = N - TAIL
            seen[prompt:] = torch.ones(N, N, dtype=torch.bool).tril()[prompt:]
            if mode in ("sa", "union"):
                order = torch.from_numpy(sattn.permutation(prompt, seed=SEED, layer=number).astype("int64"))
                slot = torch.empty(prompt, dtype=torch.long)
                slot[order] = torch.arange(prompt)
                query, key = torch.arange(prompt)[:, None], torch.arange(prompt)[None, :]
                width = W if mode == "sa" else W // 2
                band = ((slot[query] - slot[key]).abs() < width) & (key <= query)
                seen[:prompt, :prompt] = band | ((key < SINKS) & (key <= query)) | (((query - key < width) & (key <= query)) if mode == "union" else False)
        mask = torch.zeros(1, 1, N, N).masked_fill(~seen, float("-inf"))
        layer.self_attn.register_forward_pre_hook(lambda module, given, words, mask=mask: (given, {**words, "attention_mask": mask}), with_kwargs=True)
    with torch.no_grad():
        logits = eager(tokens[:, :-1], use_cache=False).logits[:, -TAIL:]
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, -TAIL:], reduction="none").double(), logits


@pytest.mark.parametrize("protocol", grid.PROTOCOLS)
@pytest.mark.parametrize("mode", ["full", "swa", "sa", "union"])
def test_protocols_equal_masks(folder, model, mode, protocol):
    tokens = torch.randint(0, 256, (2, N + 1))
    case = grid.Case(N, W, mode, SINKS, protocol, SEED)

    def switch(what):
        sattn.transformers.configure(model[0], **(case.attention() if what == "mode" else {"mode": "full"}))

    nll, hits = score.score(model[0], tokens, TAIL, protocol, switch)
    expected, logits = reference_nll(folder, tokens, mode, protocol)
    assert nll.shape == (2, TAIL)
    assert (nll - expected).abs().max() <= 1e-4
    assert torch.equal(hits.bool(), logits.argmax(-1) == tokens[:, -TAIL:])


def test_windows_are_evenly_spaced():
    ids = list(range(100))
    found = text.windows(ids, 9, 4)
    assert [window[0] for window in found] == [0, 30, 60, 90] and all(len(window) == 10 for window in found)
    with pytest.raises(ValueError, match="n: the text has 100 tokens"):
        text.windows(ids, 100, 1)
    with pytest.raises(ValueError, match="contexts"):
        text.windows(ids, 98, 3)


def test_cases_give_every_mode_the_same_window():
    found = grid.cases([16, 64], [8, 32], list(grid.MODES), [0, 4], ["windowed"], [0, 1])
    assert sum(case.mode == "full" for case in found) == 2
    assert not any(case.w >= case.n for case in found)
    assert len([case for case in found if case.mode == "sa"]) == 2 * 3 * 2
    assert grid.Case(64, 9, "union", 0, "windowed", 1).attention()["window_swa"] == 5
    assert grid.Case(64, 8, "moba", 4, "windowed", None).attention() == {"mode": "moba", "block": 4, "top_k": 2, "sink_tokens": 4}


def test_summary_takes_seeds_and_windows_apart():
    rows = [{"n": 8, "w": 4, "mode": "sa", "sink_tokens": 0, "tail": "windowed", "seed": seed, "nll": nll, "top1": 0.5, "nll_windows": [nll - 1, nll + 1],
             "top1_windows": [0.5, 0.5]} for seed, nll in ((0, 2.0), (1, 4.0))]
    cell = grid.summary(rows)[(8, 4, "sa", 0, "windowed")]
    assert cell["nll"] == 3.0 and cell["nll_seed_deviation"] == pytest.approx(2**0.5) and cell["nll_window_error"] == pytest.approx(1.0)
    assert "3.000 ± 1.414 / 50.0 ± 0.0" in report.table(rows)


def test_command_writes_and_continues(folder, tmp_path, capsys):
    book = tmp_path / "book.txt"
    book.write_text(tiny.text(40))
    words = [folder, "--text", str(book), "--out", str(tmp_path / "out"), "--n", "32,64", "--window", "8", "--tail", "windowed,full", "--score", "4", "--contexts", "3,2",
             "--seeds", "0,1", "--quiet"]
    assert evaluate.main(words) == 0
    shown = capsys.readouterr().out
    stored = json.loads((tmp_path / "out" / "results.json").read_text())
    # full once per n; for two n, two sinks and two tails SWA and MoBA once, SA and UNION for each of two seeds
    assert len(stored["results"]) == 2 + 2 * 2 * 2 * (2 + 2 * 2)
    assert "| 64 | 8 | 4 | full |" in shown and (tmp_path / "out" / "plot.svg").stat().st_size > 1000
    before = (tmp_path / "out" / "results.json").stat().st_mtime_ns
    assert evaluate.main(words) == 0
    assert (tmp_path / "out" / "results.json").stat().st_mtime_ns == before
    with pytest.raises(ValueError, match="score"):
        evaluate.main([*words, "--score", "5"])
    for refused in (["--score", "0"], ["--contexts", "1,2,3"], ["--modes", "other"], ["--window", "1"]):
        with pytest.raises(SystemExit):
            evaluate.main([*words, *refused])


def _item(kind, body, attributes=False):
    return struct.pack(">i", kind | (0x200 if attributes else 0)) + body


def _string(word):
    return _item(9, struct.pack(">i", len(word)) + word.encode())


def _vector(kind, items, names=None):
    body = struct.pack(">i", len(items)) + b"".join(items)
    if names is not None:
        tag = _item(1, _string("names")) if names is not _vector else b""
        body += struct.pack(">i", 2 | 0x400) + tag + _vector(16, [_string(name) for name in names]) + struct.pack(">i", 254)
    return _item(kind, body, names is not None)


def test_novels_are_read_without_r(tmp_path):
    head = b"X\n" + struct.pack(">iii", 2, 0x40201, 0x20300)
    text_of_book = head + _vector(16, [_string(line) for line in ("It was _her_ home.", "Yes.", "", "No.")])
    packed = struct.pack(">i", len(text_of_book)) + zlib.compress(text_of_book)
    place = _item(13, struct.pack(">iii", 2, 0, len(packed)))
    index = head + _vector(19, [_vector(19, [place], ["book"])], ["variables"])
    (tmp_path / "Rdata.rdb").write_bytes(packed)
    compressor = zlib.compressobj(wbits=31)
    (tmp_path / "Rdata.rdx").write_bytes(compressor.compress(index) + compressor.flush())
    assert novels.read_novels(tmp_path) == {"book": "It was her home. Yes.\n\nNo.\n"}
    assert novels.main([str(tmp_path), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "book.txt").read_text() == "It was her home. Yes.\n\nNo.\n"
    (tmp_path / "Rdata.rdb").write_bytes(packed[:4] + zlib.compress(text_of_book[:-3]))
    with pytest.raises(ValueError, match="ends early"):
        novels.read_novels(tmp_path)


def test_cloze_words_stand_in_their_passage():
    found = cloze.items(tiny.text(80), 5, 40, 1)
    assert len(found) == 5 and all(item["word"] in item["passage"] for item in found)
    with pytest.raises(ValueError, match="no passage"):
        cloze.items("too short", 5, 40, 1)


def likelihoods(samples):
    return [sample["filtered_resps"][0][0] for sample in sorted(samples, key=lambda sample: sample["doc_id"])]


def harness_scores(model_name, arguments, tasks, **words):
    """Log-likelihood of each item's word."""
    lm_eval = pytest.importorskip("lm_eval", exc_type=ImportError)
    from lm_eval.tasks import TaskManager

    import sattn.evaluation.harness  # noqa: F401

    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    result = lm_eval.simple_evaluate(model=model_name, model_args=arguments, tasks=["cloze_novels"], task_manager=manager, bootstrap_iters=0, device="cpu", **words)
    return likelihoods(result["samples"]["cloze_novels"])


def command_scores(arguments, tasks, out, batch):
    """The same through the command line."""
    subprocess.run([sys.executable, "-m", "sattn.evaluation.harness", "run", "--model", "sattn", "--model_args", arguments, "--tasks", "cloze_novels", "--include_path",
                    str(tasks), "--device", "cpu", "--batch_size", batch, "--output_path", str(out), "--log_samples"], check=True, capture_output=True,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})
    samples = [json.loads(line) for line in next(out.rglob("samples_*.jsonl")).read_text().splitlines()]
    return [float(value) for value in likelihoods(samples)]


def test_harness_runs_a_local_task(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    cloze.write(tmp_path / "task", cloze.items(tiny.text(60), 6, 20, 2))
    task = tmp_path / "task" / "cloze_novels.yaml"
    # On the command line the harness estimates the error of a perplexity by 100000 resamplings; accuracy is enough here.
    text_of_task = task.read_text()
    task.write_text(text_of_task[: text_of_task.index("  - metric: perplexity")] + text_of_task[text_of_task.index("  - metric: acc") :])
    where = f"pretrained={folder},dtype=float32"
    plain = harness_scores("hf", where, tmp_path / "task", batch_size=1)
    assert len(plain) == 6
    assert harness_scores("sattn", f"{where},mode=full", tmp_path / "task", batch_size=3) == pytest.approx(plain, rel=1e-4)
    alone = harness_scores("sattn", f"{where},mode=stochastic,window=8,seed=3", tmp_path / "task", batch_size=1)
    together = command_scores(f"{where},mode=stochastic,window=8,seed=3", tmp_path / "task", tmp_path / "out", "6")
    assert together == pytest.approx(alone, rel=1e-4)
    tail = harness_scores("sattn", f"{where},mode=stochastic,window=8,seed=3,tail=full", tmp_path / "task", batch_size=1)
    assert alone != pytest.approx(plain, rel=1e-2) and tail != pytest.approx(alone, rel=1e-2) and tail != pytest.approx(plain, rel=1e-2)
