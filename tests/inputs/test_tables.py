"""Number and names of the columns of a table."""

import numpy as np
import pandas as pd
from numpy.testing import assert_array_equal

from ffnb_sklearn._inputs.tables import COLUMNS, columns_of


def test_an_array_has_a_number_of_columns_and_no_names():
    assert columns_of(np.zeros((2, 3))) == {"n_features_in_": 3}


def test_a_table_has_names_too():
    columns = columns_of(pd.DataFrame({"width": [1.0], "height": [2.0]}))
    assert set(columns) == set(COLUMNS)
    assert columns["n_features_in_"] == 2
    assert_array_equal(columns["feature_names_in_"], ["width", "height"])
