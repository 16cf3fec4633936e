"""``python -m crowdppl`` is the command ``crowdppl``."""

from crowdppl.command.cli import main

main()
