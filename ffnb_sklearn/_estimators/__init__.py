"""What the classifiers share: their state, its exchange, validation, parameters and callbacks."""
