"""to_torch: the solved classifier as a module of torch, exported and run elsewhere."""

import io
import pickle
import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import make_classification
from torch import nn

from ffnb_sklearn import FFNBClassifier

# Six classes that overlap, far enough from zero and from each other in unit to be repaired.
X, Y = make_classification(
    11_000, 12, n_informative=8, n_classes=6, n_clusters_per_class=1, random_state=0
)
X[:, 3] += 100.0
X, Y, NEW = X[:1000], Y[:1000], X[1000:]
NAMES = np.array(["b", "a", "z", "y", "c", "x"])[Y]
HEADS = ["gaussian", "ovo", "ova"]
TOLERANCE = {"float32": 1e-4, "float64": 1e-10}


def learned(**parameters):
    """Estimator that has learned six classes in two tasks, the higher numbers first."""
    model = FFNBClassifier(random_state=0, shared_band_size=60).set_params(**parameters)
    for task in ([2, 3, 4, 5], [0, 1]):
        now = np.isin(Y, task)
        model.partial_fit(X[now], NAMES[now])
    return model


def run(module, samples, dtype):
    with torch.inference_mode():
        return module(torch.tensor(samples, dtype=getattr(torch, dtype))).double().numpy()


CASES = [
    *({"classifier": head} for head in HEADS),
    *({"classifier": head, "priors": "empirical"} for head in HEADS),
    {"priors": {name: 1.0 + 9.0 * (name == "a") for name in "abcxyz"}, "classifier": "ova"},
    {"n_layers": 2, "band_size": 2, "bands__activation": "tanh"},
    {"skip_connection": False, "bands__batch_norm": True},
    {"shared_band_size": 0, "band_size": 0, "shrinkage": 1.0},
    {"shared_band_size": 400, "scale": True},
    {"scale": False, "covariance": "identity"},
]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("parameters", CASES, ids=repr)
def test_a_module_gives_the_scores_labels_and_probabilities_of_the_estimator(parameters, dtype):
    model = learned(**parameters)
    module = model.to_torch(dtype)
    scores, expected = run(module, NEW, dtype), model.decision_function(NEW)
    assert_allclose(scores, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    assert_array_equal(module.classes_, model.classes_)
    probabilities = module.probabilities(torch.tensor(scores)).numpy()
    assert_allclose(probabilities, model.predict_proba(NEW), atol=20 * TOLERANCE[dtype])
    wrong = module.classes_[scores.argmax(1)] != model.predict(NEW)
    # Samples on a boundary may round to either side of it.
    assert wrong.sum() <= (2 if dtype == "float32" else 0)
    best, second = np.sort(expected[wrong], axis=1)[:, :-3:-1].T
    assert_allclose(best, second, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_two_labels_have_two_scores_and_declared_labels_none():
    now = np.isin(Y, [1, 2])
    model = FFNBClassifier(random_state=0).fit(X[now], Y[now])
    scores = run(model.to_torch("float64"), NEW, "float64")
    half = 0.5 * (scores[:, 1] - scores[:, 0])
    assert_allclose(half, model.decision_function(NEW), atol=1e-10)
    model.partial_fit(X[now], Y[now], classes=[0, 7])
    module = model.to_torch()
    assert_array_equal(module.classes_, [1, 2])
    assert run(module, NEW, "float32").shape == (len(NEW), 2)


def test_a_module_is_its_own():
    model = learned()
    module = model.to_torch("float64")
    before = run(module, NEW, "float64")
    model.decay(0.1).forget("a")
    assert_array_equal(run(module, NEW, "float64"), before)
    assert_array_equal(run(pickle.loads(pickle.dumps(module)), NEW, "float64"), before)
    assert list(module.parameters()) == []


@pytest.mark.parametrize("head", HEADS)
def test_a_network_and_its_head_are_exported_saved_and_loaded(head):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh()).eval()
        images = torch.randn(500, 1, 4, 4)
    labels = np.arange(500) % 5
    images += torch.tensor(labels)[:, None, None, None]
    with torch.inference_mode():
        features = network(images)
    model = FFNBClassifier(random_state=0, classifier=head).fit(features, labels)
    whole = nn.Sequential(network, model.to_torch())
    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(whole, (images[:3],), dynamic_shapes=(batch,))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for some in (images[:1], images[:7]):
        scores = loaded(some).detach().numpy()
        expected = model.decision_function(network(some))
        assert_allclose(scores, expected, atol=1e-4, rtol=1e-4)


class Both(nn.Module):
    """Scores and probabilities."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, samples):
        scores = self.head(samples)
        return scores, self.head.probabilities(scores)


@pytest.mark.parametrize("head", HEADS)
def test_onnx_runs_without_torch(head, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model, path = learned(classifier=head), tmp_path / "head.onnx"
    samples, batch = torch.tensor(NEW[:50], dtype=torch.float32), {0: torch.export.Dim("batch")}
    with warnings.catch_warnings():
        # The exporter uses deprecated functions of torch.
        warnings.simplefilter("ignore")
        both = Both(model.to_torch()).eval()
        torch.onnx.export(both, (samples,), path, dynamo=True, dynamic_shapes=(batch,))
    session = runtime.InferenceSession(path)
    found = session.run(None, {session.get_inputs()[0].name: NEW.astype(np.float32)})
    scores, probabilities = found
    assert_allclose(scores, model.decision_function(NEW), atol=1e-4, rtol=1e-4)
    # Large scores of samples between two classes differ by less than they round to.
    assert_allclose(probabilities, model.predict_proba(NEW), atol=1e-3)


def test_what_cannot_be_a_module_is_refused_by_name():
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float64'; got 'half'"):
        learned().to_torch("half")
    rows = sparse.random_array((40, 3000), density=0.01, rng=0, format="csr")
    for shared in ("auto", 5):
        model = FFNBClassifier(shared_band_size=shared, random_state=0)
        model.fit(rows, np.arange(40) % 2)
        with pytest.raises(ValueError, match=r"to_torch .* got sparse samples of 3000 features"):
            model.to_torch()
    narrow = FFNBClassifier(random_state=0).fit(rows[:, :200], np.arange(40) % 2)
    scores = run(narrow.to_torch("float64"), rows[:, :200].toarray(), "float64")
    assert_array_equal(scores.argmax(1), narrow.predict(rows[:, :200]))
