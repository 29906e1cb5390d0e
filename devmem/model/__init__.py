"""Plain data: items, messages, payloads, results and the stages of an agent's execution; no I/O."""
