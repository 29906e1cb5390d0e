"""Text processing without a model: terms, sentences, passages, times, token estimates; and files and calls."""
