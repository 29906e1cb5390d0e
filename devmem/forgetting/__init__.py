"""Forgetting over several stores: what is selected, its copies and what was derived, files beside, and a receipt."""
