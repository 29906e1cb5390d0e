"""Messages, the queue they wait in, and the short-term memory of those that were seen."""

from devmem.messages.memory import MessageMemory
from devmem.messages.queue import Dedupe, MessageQueue
from devmem.messages.short_term import ShortTermMemory
from devmem.model.blocks import AttachmentRef, KeepBlock, MessageBlock, keep_unknown
from devmem.model.message import AIMessage, Message, SystemMessage, ToolMessage, UserMessage
from devmem.model.message_items import holds_message, item_to_message, message_to_item, readable_text
from devmem.model.message_json import dump_message, dump_message_json, load_message, load_message_json
from devmem.model.message_names import (
    ROUTE_ALL,
    ROUTE_NONE,
    ROUTE_SELF,
    USER_REQUIREMENT,
    Role,
    action_name,
    action_names,
)
from devmem.model.payloads import Payload, PayloadData, dump_payload, load_payload, register_payload

__all__ = [
    "ROUTE_ALL",
    "ROUTE_NONE",
    "ROUTE_SELF",
    "USER_REQUIREMENT",
    "AIMessage",
    "AttachmentRef",
    "Dedupe",
    "KeepBlock",
    "Message",
    "MessageBlock",
    "MessageMemory",
    "MessageQueue",
    "Payload",
    "PayloadData",
    "Role",
    "ShortTermMemory",
    "SystemMessage",
    "ToolMessage",
    "UserMessage",
    "action_name",
    "action_names",
    "dump_message",
    "dump_message_json",
    "dump_payload",
    "holds_message",
    "item_to_message",
    "keep_unknown",
    "load_message",
    "load_message_json",
    "load_payload",
    "message_to_item",
    "readable_text",
    "register_payload",
]
