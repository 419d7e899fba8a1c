"""What a language model loses or wins when its attention is replaced without training: `python -m sattn.evaluate --help`."""
