"""Mechanisms around collections: the outbox for writes that cannot be stored now."""

from devmem.collections.wrappers.delivery import Delivery, DeliveryPolicy, deliver
from devmem.collections.wrappers.outbox import Entry, Outbox, outbox_bodies

__all__ = ["Delivery", "DeliveryPolicy", "Entry", "Outbox", "deliver", "outbox_bodies"]
