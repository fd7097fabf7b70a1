"""Loaders of the data sets of the experiments, from files that the user already has."""

from ffnb_sklearn.datasets._cifar100 import load_cifar100
from ffnb_sklearn.datasets._fpha import load_fpha
from ffnb_sklearn.datasets._sbu import load_sbu

__all__ = ["load_cifar100", "load_fpha", "load_sbu"]
