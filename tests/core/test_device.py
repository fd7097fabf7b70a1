import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.core import device as device_module
from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.device import (
    OPERATIONS_PER_THREAD,
    as_array,
    as_tensor,
    few_threads,
    resolve_device,
)

CPU = torch.device("cpu")


def read_only(array):
    array.flags.writeable = False
    return array


def layouts():
    base = np.arange(12.0).reshape(3, 4)
    structured = np.zeros(3, dtype=[("pad", "u1"), ("value", "f8")])
    structured["value"] = [1, 2, 3]
    return {
        "C order": base,
        "Fortran order": np.asfortranarray(base),
        "negative strides": base[::-1, ::-1],
        "every other column": base[:, ::2],
        "broadcast": np.broadcast_to(base[:1], (3, 4)),
        "unaligned field": structured["value"],
        "read-only": read_only(base.copy()),
        "read-only and empty": read_only(np.zeros((0, 4))),
        "read-only scalar": read_only(np.array(3.0)),
        "big-endian": base.astype(">f8"),
        "float16": base.astype(np.float16),
        "uint16": base.astype(np.uint16),
        "bool": base > 3,
        "long double": base.astype(np.longdouble),
        "list": [[1, 2], [3, 4]],
    }


@pytest.mark.parametrize("name", layouts())
def test_any_layout_becomes_a_contiguous_float64_tensor(name):
    array = layouts()[name]
    tensor = as_tensor(array, device=CPU)
    assert tensor.dtype == torch.float64
    assert tensor.is_contiguous()
    assert_array_equal(as_array(tensor), np.asarray(array, dtype=float))
    assert as_array(tensor).shape == np.shape(array)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.bool])
def test_other_dtypes(dtype):
    tensor = as_tensor([0, 1, 200], device=CPU, dtype=dtype)
    assert tensor.dtype == dtype
    assert tensor[1].item() == 1


def test_memory_is_shared_not_copied_where_the_dtype_fits():
    array = np.arange(3.0)
    tensor = as_tensor(array, device=CPU)
    array[0] = 7.0
    assert tensor[0].item() == 7.0
    frozen = read_only(np.arange(3.0))
    assert as_tensor(frozen, device=CPU).data_ptr() == frozen.ctypes.data


def test_a_read_only_memory_map_is_read_without_a_warning_or_a_copy(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(6.0).reshape(2, 3))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = as_tensor(rows, device=CPU)
    assert tensor.data_ptr() == rows.ctypes.data
    assert not rows.flags.writeable
    # The tensor alone keeps the mapped file open.
    del rows
    assert tensor.sum().item() == 15.0


def test_as_array_takes_tensors_of_any_kind():
    weights = torch.ones(2, requires_grad=True)
    for tensor in (weights, torch.tensor([1, 1]), torch.tensor([True, True])):
        array = as_array(tensor)
        assert array.dtype == np.float64
        assert_array_equal(array, [1.0, 1.0])


def test_mps_is_told_apart_before_torch_fails():
    with pytest.raises(ValueError, match="device='mps' has no float64 arithmetic"):
        as_tensor([1.0], device=torch.device("mps"))


@pytest.mark.parametrize("device", ["gpu", "", "cuda:", "cuda:-1", "cuda:x", "cpu:0", None, CPU])
def test_an_unknown_device_is_refused(device):
    with pytest.raises(ValueError, match=r"device must be 'auto' or .*; got"):
        resolve_device(device)


def test_cpu_is_always_there():
    assert resolve_device("cpu") == CPU


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps"])
def test_a_device_that_is_missing_is_refused_with_what_there_is(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert resolve_device("auto") == CPU
    with pytest.raises(ValueError, match=f"machine, cpu; got '{device}', which is not available"):
        resolve_device(device)


def test_devices_that_are_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert resolve_device("auto") == torch.device("cuda")
    assert resolve_device("cuda") == torch.device("cuda")
    assert resolve_device("cuda:1") == torch.device("cuda:1")
    assert resolve_device("mps") == torch.device("mps")
    with pytest.raises(ValueError, match="machine, cpu, cuda, cuda:0, cuda:1, mps; got"):
        resolve_device("cuda:2")


@pytest.mark.cuda
def test_there_and_back_on_cuda():
    tensor = as_tensor(np.eye(3)[::-1], device=resolve_device("auto"))
    assert tensor.device.type == "cuda"
    assert_array_equal(as_array(tensor), np.eye(3)[::-1])


def test_a_single_row_may_have_a_negative_stride():
    row = np.arange(6.0).reshape(2, 3)[:1][::-1]
    assert row.flags.c_contiguous
    assert as_tensor(row, device=CPU).tolist() == [[0.0, 1.0, 2.0]]


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("worth", "used"), [(0.1, 1), (1.9, 1), (2.0, 2), (9.0, 4)])
def test_work_has_as_many_threads_as_it_is_worth(four_threads, worth, used):
    with few_threads(worth * OPERATIONS_PER_THREAD):
        assert torch.get_num_threads() == used
    assert torch.get_num_threads() == 4


def test_the_number_of_threads_comes_back_after_an_error(four_threads):
    with pytest.raises(KeyboardInterrupt), few_threads(1.0):
        raise KeyboardInterrupt
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize(("per_thread", "used"), [(OPERATIONS_PER_THREAD, 1), (1.0, 4)])
def test_a_small_classifier_is_solved_by_one_thread(four_threads, monkeypatch, per_thread, used):
    numbers = []

    def solve(*args, **kwargs):
        numbers.append(torch.get_num_threads())
        return solve_before(*args, **kwargs)

    solve_before = prediction.solve
    monkeypatch.setattr(prediction, "solve", solve)
    monkeypatch.setattr(device_module, "OPERATIONS_PER_THREAD", per_thread)
    X = np.random.default_rng(0).normal(size=(20, 3))
    IncrementalDiscriminantAnalysis(shared_band_size=50, random_state=0).fit(
        X, np.arange(20) % 2
    ).predict(X)
    assert numbers == [used]
