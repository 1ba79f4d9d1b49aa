"""A bank whose six procedures run by their chains: inputs that depend on one another, and no model; see README.md."""
