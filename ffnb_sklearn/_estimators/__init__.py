"""State of the classifiers, its exchange, validation, rules of parameters, and callbacks."""
