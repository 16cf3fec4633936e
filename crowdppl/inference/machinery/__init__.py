"""Searches, samplers and repeated programs of tensors, which know no story."""
