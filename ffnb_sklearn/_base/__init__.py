"""State of the classifiers, its exchange, validation, settings, and methods of the classifier."""
