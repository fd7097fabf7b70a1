"""Order of the examples in the gallery."""


class QuickstartFirst:
    """Sort key of file names: the quickstart first, all others by name."""

    def __init__(self, source_folder):
        self.source_folder = source_folder

    def __call__(self, name):
        """Return what a file name is sorted by."""
        return (name != "plot_quickstart.py", name)

    def __repr__(self):
        return type(self).__name__
