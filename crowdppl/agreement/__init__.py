"""How far annotators agree, without any model of them."""
