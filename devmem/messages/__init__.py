"""Messages, the queue they wait in, and the short-term memory of those that were seen."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.messages.queue import Dedupe as Dedupe
    from devmem.messages.queue import MessageQueue as MessageQueue
    from devmem.messages.short_term import ShortTermMemory as ShortTermMemory
    from devmem.model.message import ROUTE_ALL as ROUTE_ALL
    from devmem.model.message import ROUTE_NONE as ROUTE_NONE
    from devmem.model.message import ROUTE_SELF as ROUTE_SELF
    from devmem.model.message import USER_REQUIREMENT as USER_REQUIREMENT
    from devmem.model.message import AIMessage as AIMessage
    from devmem.model.message import AttachmentRef as AttachmentRef
    from devmem.model.message import Message as Message
    from devmem.model.message import MessageBlock as MessageBlock
    from devmem.model.message import Payload as Payload
    from devmem.model.message import PayloadData as PayloadData
    from devmem.model.message import Role as Role
    from devmem.model.message import SystemMessage as SystemMessage
    from devmem.model.message import ToolMessage as ToolMessage
    from devmem.model.message import UserMessage as UserMessage
    from devmem.model.message import action_name as action_name
    from devmem.model.message import action_names as action_names
    from devmem.model.message import dump_payload as dump_payload
    from devmem.model.message import load_payload as load_payload
    from devmem.model.message import register_payload as register_payload
    from devmem.model.message_json import dump_message as dump_message
    from devmem.model.message_json import dump_message_json as dump_message_json
    from devmem.model.message_json import item_to_message as item_to_message
    from devmem.model.message_json import load_message as load_message
    from devmem.model.message_json import load_message_json as load_message_json
    from devmem.model.message_json import message_to_item as message_to_item
    from devmem.model.message_json import readable_text as readable_text
else:
    _ORIGINS = {
        "devmem.messages.queue": "Dedupe MessageQueue",
        "devmem.messages.short_term": "ShortTermMemory",
        "devmem.model.message": (
            "ROUTE_ALL ROUTE_NONE ROUTE_SELF USER_REQUIREMENT AIMessage AttachmentRef Message "
            "MessageBlock Payload PayloadData Role SystemMessage ToolMessage UserMessage action_name action_names "
            "dump_payload load_payload register_payload"
        ),
        "devmem.model.message_json": (
            "dump_message dump_message_json item_to_message load_message load_message_json "
            "message_to_item readable_text"
        ),
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
