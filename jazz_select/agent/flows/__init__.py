"""Running flows in a turn: their chains and parts, the facts that they wait for, and the model that goes on."""
