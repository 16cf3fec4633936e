"""``python -m crowdppl`` is the command ``crowdppl``."""

from crowdppl.cli.commands import main

main()
