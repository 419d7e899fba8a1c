"""Tiny random models of six families against eager attention."""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sattn  # noqa: E402
import sattn.transformers as st  # noqa: E402
from oracle import visible  # noqa: E402

st.register()

COMMON = dict(
    vocab_size=97,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=128,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, decoder_sparse_step=1)
FAMILIES = {
    "llama": lambda: transformers.LlamaConfig(**COMMON),
    "mistral": lambda: transformers.MistralConfig(**COMMON, sliding_window=6),
    "qwen3": lambda: transformers.Qwen3Config(**COMMON),
    "qwen3_moe": lambda: transformers.Qwen3MoeConfig(**COMMON, **MOE),
    "gemma2": lambda: transformers.Gemma2Config(**COMMON, sliding_window=6, attn_logit_softcapping=2.0, query_pre_attn_scalar=8),
    "gpt_oss": lambda: transformers.GptOssConfig(**COMMON, sliding_window=6, num_local_experts=4, num_experts_per_tok=2),
}
families = pytest.mark.parametrize("family", FAMILIES)


def pair(family, **config_changes):
    """The same random weights under eager attention and under ours."""
    config = FAMILIES[family]()
    for name, value in config_changes.items():
        setattr(config, name, value)
    models = []
    for implementation in ("eager", "sattn"):
        # A config of its own: the implementation is written into it.
        model = transformers.AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=implementation).eval()
        # Larger than a training start, so that attention is not flat and a wrong mask shows.
        if models:
            model.load_state_dict(models[0].state_dict())
        else:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 1.0))
        models.append(model)
    assert [model.config._attn_implementation for model in models] == ["eager", "sattn"]
    return models


def tokens(batch=2, length=21):
    return torch.randint(3, 97, (batch, length))


def close(ours, theirs, tolerance=2e-4):
    scale = theirs.abs().max()
    assert torch.isfinite(theirs).all() and scale > 0
    error = (ours - theirs).abs().max() / scale
    assert error <= tolerance, f"relative difference {error}"


def gradients(model, ids):
    model.zero_grad()
    model(input_ids=ids, labels=ids).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@families
def test_full_equals_eager(family):
    eager, ours = pair(family)
    ids = tokens()
    close(ours(input_ids=ids).logits, eager(input_ids=ids).logits)
    theirs, mine = gradients(eager, ids), gradients(ours, ids)
    assert theirs.keys() == mine.keys()
    for name in theirs:
        scale = theirs[name].abs().max()
        assert (mine[name] - theirs[name]).abs().max() <= 5e-4 * scale + 1e-6, name


def masked_eager(model, ids, masks):
    """Logits of the eager model where layer i has the visible set masks[i], put in place of whatever mask the model made."""
    low = torch.finfo(torch.float32).min

    def replace(layer):
        def hook(module, args, kwargs):
            kwargs["attention_mask"] = torch.where(masks[layer], 0.0, low)[None, None].expand(ids.shape[0], 1, -1, -1)
            return args, kwargs

        return hook

    handles = [
        module.register_forward_pre_hook(replace(module.layer_idx), with_kwargs=True) for module in model.modules() if st._is_attention(module)
    ]
    try:
        return model(input_ids=ids).logits
    finally:
        for handle in handles:
            handle.remove()


def sliding(config):
    """Which layers of the model itself have a sliding window, and how wide."""
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None) or ["sliding_attention" if window else "full_attention"] * config.num_hidden_layers
    return [window if each == "sliding_attention" else None for each in types]


@pytest.mark.parametrize("mode", ["stochastic", "sliding_window", "union"])
@pytest.mark.parametrize(
    "family, hybrid",
    # Every layer of Mistral slides: kept, nothing would be in the mode.
    [(family, hybrid) for family in FAMILIES for hybrid in ("keep", "replace") if (family, hybrid) != ("mistral", "keep")],
)
def test_mode_equals_masked_eager(family, mode, hybrid):
    eager, ours = pair(family)
    widths = sliding(eager.config)
    st.configure(ours, mode=mode, window=5, seed=11, sink_tokens=2, hybrid=hybrid)
    ids = tokens()
    n = ids.shape[1]
    masks = []
    for layer, width in enumerate(widths):
        order = sattn.permutation(n, seed=11, layer=layer)
        if width and hybrid == "keep":
            masks.append(visible("sliding_window", n, window=width))
        else:
            masks.append(visible(mode, n, window=5, order=order, sink_tokens=2))
    close(ours(input_ids=ids).logits, masked_eager(eager, ids, masks))


@families
def test_generation_uses_the_cache(family):
    eager, ours = pair(family)
    ids = tokens(1, 12)
    options = dict(max_new_tokens=6, do_sample=False, eos_token_id=None, return_dict_in_generate=True, output_logits=True)
    theirs, mine = (model.generate(ids, attention_mask=torch.ones_like(ids), **options) for model in (eager, ours))
    assert torch.equal(theirs.sequences, mine.sequences)
    close(torch.stack(mine.logits), torch.stack(theirs.logits))


@families
def test_windowed_decode_with_order_length_equals_one_shot(family):
    _, ours = pair(family)
    st.configure(ours, mode="stochastic", window=9, seed=3, decode="windowed", order_length=64, hybrid="replace")
    ids = tokens(2, 14)
    whole = ours(input_ids=ids).logits
    cache = None
    parts = []
    for piece in ids.split([6, 1, 1, 4, 2], dim=1):
        out = ours(input_ids=piece, cache=cache, use_cache=True)
        cache = out.cache
        parts.append(out.logits)
    close(torch.cat(parts, dim=1), whole)


@families
def test_decode_attends_to_the_whole_cache(family):
    """The prompt in the mode, the tail over everything: eager with the mask of the mode above and full rows below."""
    eager, ours = pair(family)
    st.configure(ours, mode="stochastic", window=3, seed=3, hybrid="replace")
    ids = tokens(1, 16)
    n, prompt = 16, 12
    out = ours(input_ids=ids[:, :prompt], use_cache=True)
    tail = ours(input_ids=ids[:, prompt:], cache=out.cache, use_cache=True).logits
    masks = []
    for layer in range(3):
        mask = visible("full", n)
        mask[:prompt, :prompt] = visible("stochastic", prompt, window=3, order=sattn.permutation(prompt, seed=3, layer=layer))
        masks.append(mask)
    close(tail, masked_eager(eager, ids, masks)[:, prompt:])


@families
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("mode", ["full", "stochastic"])
def test_padding_gives_what_each_sequence_gives_alone(family, side, mode):
    _, ours = pair(family)
    if mode != "full":
        st.configure(ours, mode=mode, window=4, seed=2, hybrid="replace")
    lengths = (13, 9, 4)
    texts = [tokens(1, length) for length in lengths]
    ids = torch.zeros(3, 13, dtype=torch.long)
    attention_mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        where = slice(13 - text.shape[1], None) if side == "left" else slice(0, text.shape[1])
        ids[row, where] = text[0]
        attention_mask[row, where] = 1
    positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
    logits = ours(input_ids=ids, attention_mask=attention_mask, position_ids=positions).logits
    for row, text in enumerate(texts):
        close(logits[row][attention_mask[row].bool()], ours(input_ids=text).logits[0])


@pytest.mark.parametrize("family", ["qwen3", "gemma2", "gpt_oss"])
def test_left_padded_generation(family):
    eager, ours = pair(family)
    ids = tokens(2, 10)
    ids[0, :4] = 0
    attention_mask = (ids != 0).long()
    options = dict(attention_mask=attention_mask, max_new_tokens=5, do_sample=False, eos_token_id=None)
    assert torch.equal(eager.generate(ids, **options), ours.generate(ids, **options))
    st.configure(ours, mode="stochastic", window=3, seed=2, hybrid="replace")
    both = ours.generate(ids, **options)
    alone = ours.generate(ids[:1, 4:], **{**options, "attention_mask": attention_mask[:1, 4:]})
    assert torch.equal(both[0, 4:], alone[0])


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_static_cache(family):
    eager, ours = pair(family)
    ids = tokens(2, 9)
    options = dict(attention_mask=torch.ones_like(ids), max_new_tokens=4, do_sample=False, eos_token_id=None, cache_implementation="static", disable_compile=True)
    assert torch.equal(eager.generate(ids, **options), ours.generate(ids, **options))


@families
def test_mode_gradients_equal_masked_eager(family):
    """Training: gradients of every parameter through the mode's own backward."""
    eager, ours = pair(family)
    st.configure(ours, mode="union", window_sa=3, window_swa=4, seed=8, hybrid="replace")
    ids = tokens(1, 15)
    masks = [visible("union", 15, window_sa=3, window_swa=4, order=sattn.permutation(15, seed=8, layer=layer)) for layer in range(3)]

    def grads(model, logits):
        model.zero_grad()
        torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:]).backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    theirs, mine = grads(eager, masked_eager(eager, ids, masks)), grads(ours, ours(input_ids=ids).logits)
    for name in theirs:
        assert (mine[name] - theirs[name]).abs().max() <= 5e-4 * theirs[name].abs().max() + 1e-6, name


@pytest.mark.parametrize("side", ["left", "right"])
def test_traced_model_with_padding(side):
    _, ours = pair("llama")
    st.configure(ours, mode="stochastic", window=4, seed=2)
    ids = tokens(2, 11)
    attention_mask = torch.ones_like(ids)
    attention_mask[0, slice(0, 4) if side == "left" else slice(7, 11)] = 0
    positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
    inputs = dict(input_ids=ids, attention_mask=attention_mask, position_ids=positions, use_cache=False)
    expected = ours(**inputs).logits
    with torch.no_grad():
        traced = torch.compile(ours, backend="aot_eager")(**inputs).logits
    real = attention_mask.bool()
    close(traced[real], expected[real])


def test_moba_and_sinks_run_and_differ():
    _, ours = pair("qwen3")
    ids = tokens(1, 24)
    full = ours(input_ids=ids).logits
    st.configure(ours, mode="moba", block=4, top_k=100)
    close(ours(input_ids=ids).logits, full)
    st.configure(ours, mode="moba", block=4, top_k=2)
    assert (ours(input_ids=ids).logits - full).abs().max() > 1e-3


def test_layers_have_permutations_of_their_own_and_steps_change_them():
    _, ours = pair("llama")
    settings = st.configure(ours, mode="stochastic", window=3, seed=1)
    ids = tokens(1, 20)
    seen = []
    for step in (0, 1, 0):
        settings.step = step
        seen.append(ours(input_ids=ids).logits)
    assert torch.equal(seen[0], seen[2]) and not torch.equal(seen[0], seen[1])


def test_refusals():
    eager, ours = pair("llama")
    with pytest.raises(sattn.Error, match="attn_implementation='sattn'"):
        st.configure(eager, mode="stochastic", window=4)
    with pytest.raises(sattn.Error, match="window_sa"):
        st.configure(ours, mode="stochastic")
    with pytest.raises(sattn.Error, match="mode"):
        st.configure(ours, mode="nearest", window=3)
    with pytest.raises(sattn.Error, match="gates"):
        st.configure(ours, mode="gated", window=3)
    with pytest.raises(sattn.Error, match="decode"):
        st.configure(ours, mode="stochastic", window=3, decode="sometimes")
    ids = tokens(1, 8)
    holes = torch.ones_like(ids)
    holes[0, 3] = 0
    with pytest.raises(sattn.Error, match="holes"):
        ours(input_ids=ids, attention_mask=holes)
    with pytest.raises(sattn.Error, match="ready-made"):
        ours(input_ids=ids, attention_mask=torch.zeros(1, 1, 8, 8))
    with pytest.raises(sattn.Error, match="packed"):
        ours(input_ids=ids, position_ids=torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3]]), use_cache=False)


def test_configuring_back_restores_the_model():
    _, ours = pair("gemma2")
    before = list(ours.config.layer_types)
    st.configure(ours, mode="stochastic", window=3, hybrid="replace")
    assert set(ours.config.layer_types) == {"full_attention"}
    st.configure(ours, mode="full")
    assert ours.config.layer_types == before


def test_bf16_model():
    eager, ours = pair("qwen3")
    eager, ours = eager.to(torch.bfloat16), ours.to(torch.bfloat16)
    ids = tokens(1, 12)
    close(ours(input_ids=ids).logits.float(), eager(input_ids=ids).logits.float(), 0.06)
