"""The app: what the command line does, as pages of a browser on the same machine."""
