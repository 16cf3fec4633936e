"""Figures about all items, from labels by people of some of them and a proxy of all."""
