"""The report of a fit for people who read no tables: one page of HTML, its words and its pictures."""
