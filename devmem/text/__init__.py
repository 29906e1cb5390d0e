"""Texts as search and budgets see them: terms, sentences, tokens."""
