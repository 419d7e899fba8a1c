"""python -m sattn.pretrain: the model, the data, and that stopping changes nothing."""

import dataclasses
import json
import pathlib

import pytest

torch = pytest.importorskip("torch")

import sattn  # noqa: E402
from sattn import pretrain  # noqa: E402
from sattn.training import config as configuration  # noqa: E402
from sattn.training import data, loop, model, tokens  # noqa: E402

CONFIGS = pathlib.Path(__file__).parent.parent / "configs"


def small(mode="sa", **attention):
    return configuration.Config(
        configuration.Model(layers=2, width=16, heads=2, head_dim=8, hidden=24, vocabulary=64, context=32, key_value_heads=1),
        configuration.Attention(mode=mode, window=6, **attention),
        configuration.Data(kind="recall", facts=2, values=4, noise=16, questions=4),
        configuration.Train(steps=6, batch=3, learning_rate=1e-2, warmup=2, accumulate=2, evaluate_every=3, evaluate_batches=2, checkpoint_every=3),
    )


@pytest.mark.parametrize("mode", configuration.MODES)
def test_resume_is_bit_equal(mode, tmp_path):
    config = small(mode)
    whole = loop.Run(config, tmp_path / "whole")
    whole.run()
    loop.Run(config, tmp_path / "parts").run(until=3)
    # A run that was killed after its checkpoint leaves lines that happen again.
    with open(tmp_path / "parts" / "log.jsonl", "a") as file:
        file.write(json.dumps({"step": 4, "loss": 0.0}) + "\n")
    torch.manual_seed(99)
    parts = loop.Run(config, tmp_path / "parts")
    assert parts.step == 3
    parts.run()
    for (name, one), other in zip(whole.model.state_dict().items(), parts.model.state_dict().values()):
        assert torch.equal(one, other), name
    assert [line["loss"] for line in loop.read_log(tmp_path / "whole")] == [line["loss"] for line in loop.read_log(tmp_path / "parts")]
    assert len({line["loss"] for line in whole.log}) == 6
    with pytest.raises(ValueError, match="another configuration"):
        loop.Run(dataclasses.replace(config, train=dataclasses.replace(config.train, seed=7)), tmp_path / "parts")


@pytest.mark.parametrize("mode", configuration.MODES)
def test_no_token_sees_a_later_one(mode):
    made = model.Decoder(small(mode))
    row = torch.randint(0, 64, (1, 32))
    changed = row.clone()
    changed[0, 20] = (changed[0, 20] + 1) % 64
    before, after = made.hidden_states(row, 3), made.hidden_states(changed, 3)
    assert torch.equal(before[0, :20], after[0, :20]) and not torch.equal(before[0, 20], after[0, 20])


def test_wide_windows_are_full_attention():
    row = torch.randint(0, 64, (2, 32))
    full = model.Decoder(small("full")).hidden_states(row, 0)
    for mode in ("swa", "sa"):
        config = small(mode)
        config.attention.window = 32
        assert (model.Decoder(config).hidden_states(row, 0) - full).abs().max() <= 1e-5


def test_gates_are_two_sigmoids():
    config = small("gated")
    layer = model.Decoder(config).layers[1].attention
    with torch.no_grad():
        for gate in (layer.gate_sa, layer.gate_swa):
            gate.weight.normal_(), gate.bias.normal_()
    x = torch.randn(2, 32, 16)
    table = model.rotary_table(32, 8, 10000.0)
    query = model.rotate(layer._split(layer.query(x), 2), *table)
    key = model.rotate(layer._split(layer.key(x), 1), *table)
    value = layer._split(layer.value(x), 1)
    branches = [sattn.attention(query, key, value, mode="stochastic", window=3, seed=0, layer=1, step=4), sattn.attention(query, key, value, mode="sliding_window", window=3)]
    logits = [gate(x).transpose(1, 2)[..., None] for gate in (layer.gate_sa, layer.gate_swa)]
    mixed = sum(torch.sigmoid(logit) * branch for logit, branch in zip(logits, branches))
    expected = layer.out(mixed.transpose(1, 2).reshape(2, 32, 16))
    assert (layer(x, table, 4) - expected).abs().max() <= 1e-5
    layer(x, table, 4).square().sum().backward()
    assert layer.gate_sa.weight.grad.abs().max() > 0 and layer.gate_swa.weight.grad.abs().max() > 0


def test_permutation_is_fresh_or_fixed():
    row = torch.randint(0, 64, (1, 32))
    fresh, fixed = model.Decoder(small()), model.Decoder(small(permutation="fixed"))
    assert not torch.equal(fresh.hidden_states(row, 0), fresh.hidden_states(row, 1))
    assert torch.equal(fixed.hidden_states(row, 0), fixed.hidden_states(row, 1))
    assert torch.equal(fixed.hidden_states(row, 5), fresh.hidden_states(row, 0))


def test_modes_start_from_the_same_weights():
    states = [model.Decoder(small(mode)).state_dict() for mode in configuration.MODES]
    for name in states[0]:
        assert all(torch.equal(states[0][name], state[name]) for state in states[1:])


def test_recall_asks_what_was_said_far_away():
    source = data.make(small())
    row, targets = source.batch("train", 7, 5)
    assert all(torch.equal(one, other) for one, other in zip(source.batch("train", 7, 5), (row, targets)))
    assert not torch.equal(source.batch("train", 8, 5)[0], row) and not torch.equal(source.batch("validation", 7, 5)[0], row)
    for line, wanted in zip(row, targets):
        facts = {(int(token) - 6) // 4: ((int(token) - 6) % 4, place) for place, token in enumerate(line) if 6 <= token < 14}
        asked = [place for place in range(32) if wanted[place] >= 0]
        assert len(facts) == 2 and len(asked) == 4
        for place in asked:
            value, where = facts[int(line[place]) - 4]
            assert wanted[place] == value and place - where >= 16


def test_streams_keep_validation_apart(tmp_path):
    book = tmp_path / "book"
    book.write_bytes(bytes(range(50)) * 18 + bytes([200]) * 100)
    config = small()
    config.data = configuration.Data(kind="bytes", path=str(book))
    config.model.vocabulary = 256
    source = data.make(config)
    row, targets = source.batch("train", 0, 4)
    assert torch.equal(row[:, 1:], targets[:, :-1]) and row.max() < 200
    assert source.batch("validation", 0, 4)[0].min() == 200
    config.model.vocabulary = 100
    with pytest.raises(ValueError, match="vocabulary"):
        data.make(config).batch("validation", 0, 4)


def test_token_files(tmp_path):
    pytest.importorskip("transformers")
    import tiny

    (tmp_path / "a.txt").write_text("ab"), (tmp_path / "b.txt").write_text("c")
    tiny.tokenizer().save_pretrained(tmp_path / "tokenizer")
    assert tokens.main([str(tmp_path / "tokenizer"), str(tmp_path / "row.npy"), str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]) == 0
    import numpy

    row = numpy.load(tmp_path / "row.npy")
    assert row.dtype == numpy.uint16 and len(row) == 5 and row[2] == row[4] == tiny.tokenizer().eos_token_id


def test_learning_rate_rises_and_falls():
    train = configuration.Train(steps=100, batch=1, learning_rate=1.0, warmup=10, final_rate=0.1)
    rates = [loop.learning_rate(train, step) for step in range(101)]
    assert rates[0] == pytest.approx(0.1) and max(rates) == rates[9] == rates[10] == 1.0 and rates[100] == pytest.approx(0.1)
    assert all(one >= other for one, other in zip(rates[10:], rates[11:]))


def test_configurations_of_the_package_are_valid():
    sizes = {path.stem: configuration.read(path) for path in CONFIGS.glob("*.toml")}
    assert {"small-recall", "small-novels", "paper-360m"} <= set(sizes)
    paper = sizes["paper-360m"]
    assert (paper.model.layers, paper.model.context, paper.attention.window) == (24, 2048, 256)
    with torch.device("meta"):
        made = model.Decoder.__new__(model.Decoder)
        torch.nn.Module.__init__(made)
        made.embedding = torch.nn.Embedding(paper.model.vocabulary, paper.model.width)
        made.layers = torch.nn.ModuleList(model.Layer(paper, layer) for layer in range(paper.model.layers))
    assert 350e6 < model.parameters(made) < 370e6


@pytest.mark.parametrize("change, message", [("attention.mode=other", "attention.mode"), ("train.steps=0", "train.steps"), ("model.none=1", "model.none"), ("other.a=1", "section"),
                                             ("steps=3", "--set"), ("attention.window=0", "attention.window"), ("data.kind=none", "data.kind")])
def test_wrong_settings_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        configuration.read(CONFIGS / "small-recall.toml", [change])


def test_command_compares(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    words = [str(CONFIGS / "small-recall.toml"), "--out", str(tmp_path), "--quiet", "--modes", "full,gated", "--seeds", "0,1"]
    for change in ("model.layers=1", "model.width=16", "model.head_dim=8", "model.hidden=16", "model.context=32", "data.questions=4", "attention.window=4", "train.steps=4",
                   "train.batch=2", "train.evaluate_every=2", "train.evaluate_batches=1"):
        words += ["--set", change]
    assert pretrain.main(words) == 0
    shown = capsys.readouterr().out
    assert "| SA+SWA gated |" in shown and (tmp_path / "curves.svg").stat().st_size > 1000
    assert len(json.loads((tmp_path / "summary.json").read_text())["full"]) == 2
    assert pretrain.main([*words, "--until", "4"]) == 0
    assert capsys.readouterr().out.splitlines()[-4:] == shown.splitlines()[-4:]
