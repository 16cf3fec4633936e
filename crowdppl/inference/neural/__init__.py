"""Training of networks inside em and vb."""
