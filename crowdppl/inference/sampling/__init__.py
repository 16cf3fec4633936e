"""gibbs and nuts."""
