"""Bayesian models of annotators: state how labels come about once, infer the truth in many ways."""

import lazy_loader

__version__ = "0.1.0"

# The public names stand in __init__.pyi. Each is imported when first used, so that `import crowdppl` costs little.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
