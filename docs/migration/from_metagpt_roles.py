"""Read the memories of `storage/team/team.json` into one `role_zero` store, `roles.db`, a part for each role."""

import json
from pathlib import Path

import devmem
from devmem.messages import ShortTermMemory
from devmem_stores.role_zero import RoleZeroConfig, RoleZeroMemory

team = json.loads(Path("storage/team/team.json").read_text(encoding="utf-8"))
config = RoleZeroConfig(memory_path="roles.db")
store = RoleZeroMemory(devmem.stores.StoreSetup(name="talk", store_type="role_zero", config=config))
for name, role in team["env"]["roles"].items():
    messages = ShortTermMemory.load(json.dumps(role["rc"]["memory"])).get()
    new = [outcome for outcome in store.role(name).add_batch(messages) if outcome.status == "stored"]
    print(f"{name}: {len(new)} of {len(messages)} messages stored")

alex = store.role("Alex")
for message in alex.get_by_action("metagpt.actions.design_api.WriteDesign"):
    print(message.source, "said:", message.content)
store.close()
