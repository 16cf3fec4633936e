"""``python -m crowdppl`` is the command ``crowdppl``."""

from crowdppl.cli import main

main()
