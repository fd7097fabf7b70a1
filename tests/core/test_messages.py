"""The line to which a warning points: the first line outside of the package and its libraries."""

from ffnb_sklearn.core.messages import level_of_user


def _called_from(name):
    """Return a function of a module of this name that calls another function."""
    namespace = {"__name__": name}
    exec("def call(function, *arguments):\n    return function(*arguments)", namespace)
    return namespace["call"]


def test_level_counts_the_frames_of_the_package_and_of_libraries():
    inside, library, user = map(_called_from, ("ffnb_sklearn.core", "sklearn.base", "script"))
    assert inside(level_of_user) == 2
    assert library(inside, level_of_user) == 3
    # The caller of the user plays no part.
    assert inside(library, user, inside, level_of_user) == 2


def test_a_module_whose_name_begins_alike_is_the_user():
    inside, user = map(_called_from, ("ffnb_sklearn.core", "ffnb_sklearn_tools"))
    assert inside(user, level_of_user) == 1
