"""What everything else stands on: errors, argument validation, devices, intervals."""
