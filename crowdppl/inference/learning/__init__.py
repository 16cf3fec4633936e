"""Networks that learn within a fit by em or vb."""
