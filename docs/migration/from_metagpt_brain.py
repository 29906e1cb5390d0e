"""Continue the conversation of `brain.json`, a dump of MetaGPT's `BrainMemory`, in the `brain` store `talks.db`."""

import json
from pathlib import Path

import devmem
from devmem.messages import load_message
from devmem_stores.brain import BrainConfig, BrainMemory

dumped = json.loads(Path("brain.json").read_text(encoding="utf-8"))
config = BrainConfig(memory_path="talks.db")
store = BrainMemory(devmem.stores.StoreSetup(name="talks", store_type="brain", config=config, base_dir=Path.cwd()))
store.load()
brain = store.brain(user="ann", chat="snake")
if dumped["historical_summary"]:
    brain.set_history_summary(dumped["historical_summary"])
for raw in dumped["knowledge"]:
    brain.add_knowledge(load_message(raw))
for raw in dumped["history"]:
    brain.add_history(load_message(raw))
print(brain.historical_summary)
print([message.content for message in brain.history])
print(brain.get_knowledge())
store.close()
