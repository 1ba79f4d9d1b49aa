"""The selector: recall narrows, a model decides where there is something to decide, the decision is recorded."""
