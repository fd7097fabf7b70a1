"""Training by gradients: the descent on new bands, and the network that is only trained."""
