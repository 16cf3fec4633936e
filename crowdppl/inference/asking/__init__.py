"""What a posterior asks of engines later: predictions, updates, labels left out."""
