"""Pictures of posteriors, scores, comparisons, checks and stories."""
