"""The feature map psi: inputs, shared band, trained bands, and how a band is fitted."""
