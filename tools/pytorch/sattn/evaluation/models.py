"""Loads a model and its tokenizer: a Hugging Face folder (or a name in the local cache) or one GGUF file."""

import pathlib

import torch


def load(path, dtype="float32", device="cpu"):
    """(model, tokenizer) with sattn's attention in every layer, in full mode until `sattn.transformers.configure` says otherwise."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    import sattn.transformers

    sattn.transformers.register()
    arguments = {}
    if str(path).endswith(".gguf"):
        file = pathlib.Path(path)
        if not file.is_file():
            raise FileNotFoundError(f"model: there is no file {file}")
        path, arguments["gguf_file"] = str(file.parent), file.name
    tokenizer = AutoTokenizer.from_pretrained(path, **arguments)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), attn_implementation="sattn", **arguments)
    return model.to(device).eval(), tokenizer
