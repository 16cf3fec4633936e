"""What a fit says: tables, intervals, decisions, files. Nothing here fits."""
