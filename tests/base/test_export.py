"""to_torch: the solved classifier as a module of torch, exported and run elsewhere."""

import io
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import stdtr
from sklearn.datasets import make_classification
from torch import nn

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    OpenSetClassifier,
    make_continual_pipeline,
)
from ffnb_sklearn._base.export import _Shares
from ffnb_sklearn._base.typicality import ScoreDistributions
from ffnb_sklearn.core.heads import HEADS
from ffnb_sklearn.core.novelty.likeness import LeftOutLikeness

# Six classes that overlap, far enough from zero and from each other in unit to be scaled.
X, Y = make_classification(
    11_000, 12, n_informative=8, n_classes=6, n_clusters_per_class=1, random_state=0
)
X[:, 3] += 100.0
X, Y, NEW = X[:1000], Y[:1000], X[1000:]
NAMES = np.array(["b", "a", "z", "y", "c", "x"])[Y]
TOLERANCE = {"float32": 1e-4, "float64": 1e-10}


def learned(**parameters):
    """Estimator that has learned six classes in two tasks, the higher numbers first."""
    kind = FFNBClassifier if "band_size" in parameters else IncrementalDiscriminantAnalysis
    model = kind(random_state=0, shared_band_size=60).set_params(**parameters)
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
    {"skip_connection": False, "band_size": 1, "bands__batch_norm": True},
    {"shared_band_size": 0, "shrinkage": 1.0},
    {"shared_band_size": 400, "scale": True},
    {"band_size": 1, "bands__gamma": 0.1, "covariance": "identity"},
]


@pytest.mark.parametrize("parameters", CASES, ids=repr)
def test_a_module_gives_the_scores_labels_and_probabilities_of_the_estimator(parameters):
    model = learned(**parameters)
    expected, expected_probabilities = model.decision_function(NEW), model.predict_proba(NEW)
    predicted = model.predict(NEW)
    for dtype, tolerance in TOLERANCE.items():
        module = model.to_torch(dtype)
        scores = run(module, NEW, dtype)
        assert_allclose(scores, expected, atol=tolerance, rtol=tolerance, err_msg=dtype)
        assert_array_equal(module.classes_, model.classes_)
        probabilities = module.probabilities(torch.tensor(scores)).numpy()
        assert_allclose(probabilities, expected_probabilities, atol=20 * tolerance)
        wrong = module.classes_[scores.argmax(1)] != predicted
        # Samples on a boundary may round to either side of it.
        assert wrong.sum() <= (2 if dtype == "float32" else 0)
        best, second = np.sort(expected[wrong], axis=1)[:, :-3:-1].T
        assert_allclose(best, second, atol=tolerance, rtol=tolerance)


def test_two_labels_have_two_scores_and_declared_labels_none():
    now = np.isin(Y, [1, 2])
    model = IncrementalDiscriminantAnalysis(random_state=0).fit(X[now], Y[now])
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
    model = IncrementalDiscriminantAnalysis(random_state=0, classifier=head).fit(features, labels)
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


EXPORTERS = {
    "older": {"dynamo": False},
    "newer": {"dynamo": True, "verbose": False},
}


def exported(module, example, exporter, path, outputs=("scores", "probabilities")):
    """Session of a runtime of ONNX for a module with two results."""
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    names = {"input_names": ["X"], "output_names": list(outputs)}
    axes = {name: {0: "batch"} for name in ("X", *outputs)}
    options = {**names, **EXPORTERS[exporter], "dynamic_axes": axes}
    with warnings.catch_warnings():
        # The exporters use deprecated functions of torch, and the older one is deprecated itself.
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), (example,), path, **options)
    return runtime.InferenceSession(path)


# The newer exporter takes seconds for each module; it exports the distances of "gaussian" beside
# the shares of unknown samples, below.
@pytest.mark.parametrize(
    ("head", "exporter", "dtype"),
    [
        ("gaussian", "older", "float64"),
        ("ovo", "older", "float32"),
        ("ovo", "newer", "float64"),
        ("ova", "older", "float64"),
    ],
)
def test_onnx_runs_without_torch_from_an_example_of_one_row(head, exporter, dtype, tmp_path):
    # Cosines, two layers of bands, and priors.
    parameters = {"shared_band_size": 200, "band_size": 1, "n_layers": 2, "priors": "empirical"}
    model = learned(classifier=head, **parameters)
    assert len(model._state.model.features.shared.frequencies) > 0
    module = model.to_torch(dtype)
    example = torch.tensor(NEW[:1], dtype=getattr(torch, dtype))
    session = exported(Both(module), example, exporter, tmp_path / "head.onnx")
    # The newer exporter stores constants in single precision.
    tolerance = 1e-10 if (exporter, dtype) == ("older", "float64") else 1e-4
    for n_samples in (1, 7, 1000):
        scores, probabilities = session.run(None, {"X": NEW[:n_samples].astype(dtype)})
        expected = model.decision_function(NEW[:n_samples])
        assert_allclose(scores, expected, atol=tolerance, rtol=tolerance)
        # Large scores of samples between two classes differ by less than they round to.
        expected = model.predict_proba(NEW[:n_samples])
        assert_allclose(probabilities, expected, atol=20 * tolerance)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("unit", [1e-30, 1e-26, 1e26, 1e30])
def test_rows_of_any_unit_have_labels_in_single_precision(head, unit):
    centred = X - X.mean(axis=0)
    rows = (unit * (NEW[:1000] - X.mean(axis=0))).astype(np.float32)
    # Rows like all that were learned, and rows of another unit.
    for scale in (unit, 1.0):
        model = IncrementalDiscriminantAnalysis(
            random_state=0, classifier=head, shared_band_size=200
        )
        model.fit(scale * centred, NAMES)
        module = model.to_torch()
        with torch.inference_mode():
            scores = module(torch.tensor(rows))
            probabilities = module.probabilities(scores)
        expected = model.decision_function(rows.astype(float))
        best, second = np.sort(expected, axis=1)[:, :-3:-1].T
        is_clear = best - second > 1e-3 * np.abs(best)
        assert is_clear.mean() > (0.95 if scale == unit else 0.5)
        labels = module.classes_[scores.argmax(1)]
        assert_array_equal(labels[is_clear], model.classes_[expected.argmax(1)][is_clear])
        assert torch.isfinite(scores).all()
        assert_allclose(probabilities.sum(1), np.ones(1000), rtol=1e-5)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_numbers_beyond_single_precision_are_refused(head, unit):
    model = IncrementalDiscriminantAnalysis(random_state=0, classifier=head).fit(unit * X, NAMES)
    with pytest.raises(ValueError, match=r"to_torch needs dtype='float64' .* range of float32"):
        model.to_torch()
    scores = run(model.to_torch("float64"), unit * NEW[:100], "float64")
    assert_allclose(scores, model.decision_function(unit * NEW[:100]), rtol=1e-8, atol=1e-8)


def test_what_cannot_be_a_module_is_refused_by_name():
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float64'; got 'half'"):
        learned().to_torch("half")
    rows = sparse.random_array((40, 3000), density=0.01, rng=0, format="csr")
    for shared in ("auto", 5):
        model = IncrementalDiscriminantAnalysis(shared_band_size=shared, random_state=0)
        model.fit(rows, np.arange(40) % 2)
        with pytest.raises(ValueError, match=r"to_torch .* got sparse samples of 3000 features"):
            model.to_torch()
    narrow = IncrementalDiscriminantAnalysis(random_state=0).fit(rows[:, :200], np.arange(40) % 2)
    scores = run(narrow.to_torch("float64"), rows[:, :200].toarray(), "float64")
    assert_array_equal(scores.argmax(1), narrow.predict(rows[:, :200]))


# ---- with a label for unknown samples

BACKGROUND = {name: float(name != "a") for name in "abcxyz"}
UNKNOWN_CASES = [
    *({"classifier": head} for head in HEADS),
    {"priors": "empirical", "shared_band_size": 0},
    {"priors": BACKGROUND},
    {"shrinkage": 1.0, "shared_band_size": 400},
    {"shrinkage": 0.0, "scale": True},
    {"band_size": 1},
]
# Rows of known classes, of the classes that were left out, and far away.
MIXED = np.concatenate([NEW[:2000], 3.0 * NEW[:100], 1e6 * NEW[:100]])


def open_set(**parameters):
    """Classifier that has learned four classes in two tasks, and a declared label."""
    clf = OpenSetClassifier(learned(**parameters), rate=0.1)
    for task in ([2, 3], [0, 1]):
        now = np.isin(Y, task)
        clf.partial_fit(X[now], NAMES[now], classes=["c", "u"])
    return clf


def run_open_set(module, samples, dtype):
    with torch.inference_mode():
        scores, shares = module(torch.tensor(samples, dtype=getattr(torch, dtype)))
    return scores.double().numpy(), shares.double().numpy()


@pytest.mark.filterwarnings("ignore:The parameter p:UserWarning")
@pytest.mark.parametrize("parameters", UNKNOWN_CASES, ids=repr)
def test_a_module_gives_the_labels_and_shares_of_an_open_set_classifier(parameters):
    clf = open_set(**parameters)
    expected, predicted = clf.score_samples(MIXED), clf.predict(MIXED)
    expected_probabilities = clf.predict_proba(MIXED)
    assert 0.1 < np.mean(predicted == clf.unknown_label_) < 0.9
    for dtype, tolerance in TOLERANCE.items():
        module = clf.to_torch(dtype)
        scores, shares = run_open_set(module, MIXED, dtype)
        # A step of a distribution of single samples may round to either side.
        is_close = np.isclose(shares, expected, rtol=1e-3, atol=1e-5)
        assert is_close.mean() >= (0.99 if dtype == "float32" else 1.0)
        labels = np.where(shares < clf.rate, clf.unknown_label_, module.classes_[scores.argmax(1)])
        assert (labels != predicted).sum() <= (2 if dtype == "float32" else 0)
        probabilities = module.probabilities(torch.tensor(scores)).numpy()
        columns = np.isin(clf.classes_, module.classes_)
        assert_allclose(probabilities, expected_probabilities[:, columns], atol=20 * tolerance)


def test_a_module_without_left_out_scores_knows_all():
    clf = OpenSetClassifier(learned(), rate=0.1).partial_fit(X[:1], NAMES[:1])
    scores, shares = run_open_set(clf.to_torch(), MIXED, "float32")
    assert scores.shape == (len(MIXED), 1)
    assert_array_equal(shares, 1.0)


def test_a_module_keeps_the_rate_of_its_export():
    clf = open_set()
    module = clf.to_torch("float64")
    expected = clf.score_samples(MIXED)
    clf.set_params(rate=0.5)
    assert not np.allclose(clf.score_samples(MIXED), expected, atol=1e-3)
    assert_allclose(run_open_set(module, MIXED, "float64")[1], expected, atol=1e-5)
    with pytest.raises(ValueError, match="The 'rate' parameter of OpenSetClassifier must be"):
        clf.set_params(rate=2.0).to_torch()
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float64'; got 'half'"):
        clf.set_params(rate=0.5).to_torch("half")


def test_a_pipeline_has_no_module():
    assert not hasattr(OpenSetClassifier(make_continual_pipeline(learned())), "to_torch")


@pytest.mark.parametrize("n_degrees", [0.5, 3.0, 40.0, 1e4])
def test_the_table_of_students_distribution(n_degrees):
    left_out = LeftOutLikeness.of(-np.array([0.5, 0.7]), np.ones(2), np.ones(2))
    distributions = ScoreDistributions.from_left_out([left_out, LeftOutLikeness()])
    distributions = replace(distributions, n_degrees=n_degrees)
    shares = _Shares(distributions, np.array([1]), 20.0)
    x = np.linspace(-8.0, 8.0, 999)[:, None]
    found = shares._log_distribution(torch.tensor(x)).exp().numpy()
    assert_allclose(found, stdtr(n_degrees, x), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(
    ("exporter", "dtype"), [("older", "float32"), ("older", "float64"), ("newer", "float32")]
)
def test_onnx_tells_unknown_samples(exporter, dtype, tmp_path):
    # Cosines, a background class, and rows of any unit.
    clf = open_set(priors=BACKGROUND, shared_band_size=200)
    assert len(clf.estimator_._state.model.features.shared.frequencies) > 0
    module = clf.to_torch(dtype)
    example = torch.tensor(NEW[:1], dtype=getattr(torch, dtype))
    outputs = ("scores", "shares")
    session = exported(module, example, exporter, tmp_path / "head.onnx", outputs)
    for n_samples in (1, 7, len(MIXED)):
        rows = MIXED[:n_samples]
        scores, shares = session.run(None, {"X": rows.astype(dtype)})
        labels = np.where(shares < clf.rate, clf.unknown_label_, module.classes_[scores.argmax(1)])
        assert (labels != clf.predict(rows)).sum() <= 2
        assert_allclose(scores, run_open_set(module, rows, dtype)[0], atol=1e-3, rtol=1e-3)
    for unit in (1e-26, 1e26):
        rows = (unit * (NEW[:1000] - X.mean(axis=0))).astype(np.float32)
        labels = module.classes_[session.run(None, {"X": rows.astype(dtype)})[0].argmax(1)]
        assert np.mean(labels == clf.estimator_.predict(rows)) > 0.995


def test_an_open_set_classifier_is_exported_saved_and_loaded():
    clf = open_set()
    module = clf.to_torch()
    rows = torch.tensor(MIXED, dtype=torch.float32)
    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(module, (rows[:3],), dynamic_shapes=(batch,))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    _, shares = torch.export.load(file).module()(rows)
    assert_allclose(shares.detach().numpy(), module(rows)[1].numpy(), atol=1e-6)
    assert_array_equal(pickle.loads(pickle.dumps(module))(rows)[1], module(rows)[1])


@pytest.mark.parametrize("unit", [1e-26, 1e26])
def test_rows_of_any_unit_are_judged_in_single_precision(unit):
    centred = X - X.mean(axis=0)
    rows = (unit * centred[600:]).astype(np.float32)
    clf = OpenSetClassifier(IncrementalDiscriminantAnalysis(random_state=0, shared_band_size=50))
    clf.fit(unit * centred[:600], NAMES[:600])
    _, shares = run_open_set(clf.to_torch(), rows, "float32")
    is_close = np.isclose(shares, clf.score_samples(rows.astype(float)), rtol=1e-3, atol=1e-4)
    assert is_close.mean() > 0.95
    # Rows of another unit, and rows that are no numbers.
    _, shares = run_open_set(clf.to_torch(), centred[:9], "float32")
    assert_allclose(shares, clf.score_samples(centred[:9]), rtol=1e-2, atol=1e-3)
    _, shares = run_open_set(clf.to_torch(), np.nan * centred[:9], "float32")
    assert np.isnan(shares).all()
