"""The features psi: the inputs and the shared neurons, beside trained layers if there are any."""
