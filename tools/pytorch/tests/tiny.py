"""A random checkpoint of a small Llama with a byte-level tokenizer, and texts to go with it."""

import torch

SENTENCES = ["Fanny was at home again.", "The carriage came for her cousins, and they drove to the park.", "Edmund spoke of the weather, and Fanny listened to Edmund.",
             "Nobody asked what Fanny thought of the carriage.", "Mrs. Norris was very sure of her own opinion, as was Fanny."]


def text(sentences, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return " ".join(SENTENCES[index] for index in torch.randint(len(SENTENCES), (sentences,), generator=generator).tolist())


def tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {character: number for number, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary["<end>"] = len(vocabulary)
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", pad_token="<end>")


def checkpoint(folder, seed=0):
    """Writes the model and its tokenizer into the folder."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=260, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                         max_position_embeddings=512, initializer_range=0.3)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)
