"""Annotations: checked, coded and kept as blocks of items, with gold and features beside the labels."""
