"""Tools: what may follow what, which was meant, and running them."""
