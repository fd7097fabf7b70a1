"""Sizes and seconds per epoch of the network of the paper."""

import numpy as np
from numpy.testing import assert_array_equal

from benchmarks.paper import times
from benchmarks.paper.data_sets import SBU
from benchmarks.paper.printed import SIZES
from benchmarks.paper.report import printed_size


def test_sizes_are_the_printed_ones_and_each_report_has_a_time(shared_data):
    n_classes, stored, seconds = times.measure(SBU, shared_data)
    backbone, neurons, sizes = SIZES["table1"]
    assert_array_equal(n_classes, np.arange(1, 9))
    assert_array_equal(printed_size(stored, n_classes, neurons * n_classes, backbone), sizes)
    assert np.isfinite(seconds).all()
