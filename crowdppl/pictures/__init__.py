"""Pictures of posteriors, scores and stories."""
