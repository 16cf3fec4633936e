"""From parameters to what a user reads: truth, tables, prevalence."""
