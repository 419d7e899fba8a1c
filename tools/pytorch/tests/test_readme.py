"""The code blocks of the README, run one after the other as one program."""

import os
import re

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "README.md")


def small_qwen3(folder):
    """A tiny random checkpoint, with a tokenizer, that stands for the large one."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {"<unk>": 0, **{chr(code): code for code in range(1, 128)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(folder)
    sizes = dict(vocab_size=128, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8)
    transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**sizes)).save_pretrained(folder)


def test_every_block(tmp_path, capsys, monkeypatch, smollm2):
    with open(README) as file:
        blocks = re.findall(r"^```python\n(.*?)^```", file.read(), re.S | re.M)
    assert len(blocks) >= 7
    small_qwen3(tmp_path)
    model, tokenizer = smollm2
    for kind, loaded in ((transformers.AutoModelForCausalLM, model), (transformers.AutoTokenizer, tokenizer)):
        load = kind.from_pretrained

        def from_pretrained(name, load=load, loaded=loaded, **options):
            """The tests load the real weights once, with these same options."""
            if "gguf_file" not in options:
                return load(name, **options)
            assert os.path.exists(os.path.join(name, options["gguf_file"])) and options.get("attn_implementation", "sattn") == "sattn"
            return loaded

        monkeypatch.setattr(kind, "from_pretrained", from_pretrained)
    scope = {}
    for block in blocks:
        program = block.replace('"Qwen/Qwen3-8B"', repr(str(tmp_path)))
        exec(compile(program, "README.md", "exec"), scope)
    printed = capsys.readouterr().out
    assert "SATTN_INVALID_ARGUMENT - window_sa" in printed
    assert "It is a truth universally acknowledged" in printed
    assert any(parameter.grad is not None for parameter in model.parameters())
    model.zero_grad()
    model.eval()
