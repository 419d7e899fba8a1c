"""Pre-training of small decoder-only models with full, sliding-window, stochastic or gated attention: `python -m sattn.pretrain --help`."""
