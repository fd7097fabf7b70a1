"""The benchmark of Gaussian classes: its table, and its draws."""

import numpy as np


def test_quick_run_tells_gaussian_classes_from_clusters(run_script):
    printed, records = run_script("gaussian_classes", "--quick")

    assert "| unequal, 60 |" in printed
    normal = {one["set"]: [] for one in records}
    for one in records:
        normal[one["set"]].append(one["normal"])
    assert normal == {"unequal, 60": ["True"] * 2, "clusters, 60": ["False"] * 2}
    for one in records:
        gain = float(one["accuracy with"]) - float(one["accuracy without"])
        assert gain > 3.0 if one["normal"] == "True" else gain == 0.0


def test_draws_have_so_many_rows_per_class_on_average(bench):
    module = bench("gaussian_classes")
    first, second = module.classification_splits((3, 2, 10, 5), 40, 2)

    assert first.X.shape == (120, 10)
    assert len(first.y_test) == module.N_TEST
    assert not np.array_equal(first.X, second.X)


def test_classes_that_surround_others_have_so_many_rows_per_class(bench):
    module = bench("gaussian_classes")

    for case, shape in [("circles", (80, 2)), ((3, 5), (120, 5))]:
        first, second = module.surrounding_splits(case, 40, 2)
        assert first.X.shape == shape
        assert len(first.y_test) == module.N_TEST
        assert not np.array_equal(first.X, second.X)
