"""Number and names of the columns of a table, as the attributes that scikit-learn gives them."""

from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from .arrays import UserArray

__all__ = ["COLUMNS", "columns_of"]

# Attributes that describe the columns of a table.
COLUMNS = ("n_features_in_", "feature_names_in_")


def columns_of(X: UserArray) -> dict[str, object]:
    """Return the number and names of the columns of a table, under the names in `COLUMNS`."""
    blank = BaseEstimator()
    validate_data(blank, X, skip_check_array=True)
    columns: dict[str, object] = vars(blank)
    return columns
