"""The cascade: stage after stage until one is sure enough, by one confidence and an error budget."""
