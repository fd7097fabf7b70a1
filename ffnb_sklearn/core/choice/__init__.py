"""The choice of the values that the parameters leave open."""
