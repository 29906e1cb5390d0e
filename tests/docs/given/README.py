"""An export of ChatGPT as a reader of README.md has it, in the current folder."""

import json
from pathlib import Path

content = {"content_type": "text", "parts": ["The mill has 80 seats."]}
said = {"author": {"role": "user"}, "create_time": 1772323200.0, "content": content}
nodes = {"a": {"id": "a", "message": said, "parent": None}}
talk = {"title": "Seats", "create_time": 1772323200.0, "mapping": nodes, "current_node": "a", "conversation_id": "c1"}
Path("conversations.json").write_text(json.dumps([talk]), encoding="utf-8")
