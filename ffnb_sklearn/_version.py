"""The package's version, read by the build and by ``ffnb_sklearn.__version__``."""

__version__ = "0.1.0.dev0"
