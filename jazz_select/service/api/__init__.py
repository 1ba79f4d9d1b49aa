"""The endpoints under `/v1`: what is asked as validated models, what is answered as JSON."""
