"""em and vb: block coordinate ascent."""
