"""Mechanisms around collections: the outbox for writes that cannot be stored now."""

from devmem.collections.wrappers.delivery import Delivery, DeliveryPolicy, deliver
from devmem.collections.wrappers.outbox import Entry, Outbox, outbox_bodies
from devmem.collections.wrappers.outbox_report import TABLE as OUTBOX_TABLE
from devmem.collections.wrappers.outbox_report import examine_outbox

__all__ = [
    "OUTBOX_TABLE",
    "Delivery",
    "DeliveryPolicy",
    "Entry",
    "Outbox",
    "deliver",
    "examine_outbox",
    "outbox_bodies",
]
