"""What every method and engine is held to: a contract for stories, calibration for engines."""
