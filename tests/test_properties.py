"""Properties that hold exactly: order and partition, merging, forgetting, the null-space."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_gaussian_quantiles
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis
from ffnb_sklearn.core import prediction

N_FEATURES, N_CLASSES = 8, 6
RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(N_CLASSES), [7, 5, 12, 1, 9, 6])
X = RNG.normal(size=(len(Y), N_FEATURES)) * RNG.uniform(0.5, 2.0, (N_CLASSES, 1))[Y]
X += 1.5 * RNG.normal(size=(N_CLASSES, N_FEATURES))[Y] + 2.0
NEW = RNG.normal(size=(25, N_FEATURES)) + 2.0

# Models of the classifier whose statistics are those of the classes alone.
EXACT = {
    "default": {},
    "separate": {"shrinkage": 0.0},
    "pooled": {"shrinkage": 1.0},
    "one-vs-all": {"classifier": "ova"},
    "inputs only": {"shared_band_size": 0},
}
exact = pytest.mark.parametrize("params", EXACT.values(), ids=EXACT)
exact_by_name = pytest.mark.parametrize("name", EXACT)


def model(**params):
    """Return the classifier without trained bands, unless their size is given."""
    exact = {"shared_band_size": 20, "rank": None, "random_state": 0}
    # A scaling of the columns would depend on the first task.
    exact |= {"scale": False}
    if "band_size" not in params:
        return IncrementalDiscriminantAnalysis(**(exact | {"device": "cpu"} | params))
    exact |= {"classes_per_task": None}
    return FFNBClassifier().set_params(**(exact | {"device": "cpu"} | params))


def learn(clf, parts):
    for part in parts:
        clf.partial_fit(X[part], Y[part])
    return clf


@cache
def joint(name):
    """Return a model of `EXACT` that has learned all samples at once."""
    return model(**EXACT[name]).fit(X, Y)


def of_classes(*labels):
    return np.flatnonzero(np.isin(Y, labels))


def scores(clf, samples=NEW):
    """Scores of shape (n_samples, n_classes), whatever the number of classes."""
    values = clf.decision_function(samples)
    return values if values.ndim == 2 else np.stack([-values, values], axis=1)


def assert_same(first, second, rtol=1e-8):
    assert_array_equal(first.classes_, second.classes_)
    expected = scores(second)
    assert_allclose(scores(first), expected, rtol=rtol, atol=rtol * np.abs(expected).max())
    assert_array_equal(first.predict(NEW), second.predict(NEW))


@st.composite
def task_orders(draw):
    """Any order of the classes, cut into any tasks."""
    order = draw(st.permutations(range(N_CLASSES)))
    cuts = sorted(draw(st.sets(st.integers(1, N_CLASSES - 1))))
    return [of_classes(*part) for part in np.split(np.array(order), cuts)]


@st.composite
def sample_partitions(draw):
    """Any samples in any call, whatever their class."""
    calls = np.array(draw(st.lists(st.integers(0, 3), min_size=len(Y), max_size=len(Y))))
    return [np.flatnonzero(calls == call) for call in np.unique(calls)]


@exact_by_name
@given(tasks=task_orders())
@settings(max_examples=5)
def test_any_order_and_partition_of_the_classes_gives_the_joint_fit(name, tasks):
    assert_same(learn(model(**EXACT[name]), tasks), joint(name))


@exact_by_name
@given(calls=sample_partitions())
@settings(max_examples=5)
def test_any_partition_of_the_samples_gives_the_joint_fit(name, calls):
    assert_same(learn(model(**EXACT[name]), calls), joint(name))


def test_a_limit_on_the_rank_is_as_free_of_the_order_of_whole_classes():
    # Each class is cut to rank 3 by itself, so only a class in several calls could differ.
    tasks = [of_classes(4), of_classes(2, 0), of_classes(5, 1, 3)]

    assert_same(learn(model(rank=3), tasks), model(rank=3).fit(X, Y))


@pytest.fixture
def low_auto_ranks(monkeypatch):
    """Let rank="auto" stand for few axes, because the classes here are small."""
    monkeypatch.setattr("ffnb_sklearn.core.moments._AUTO_AXES", 5)


def test_rank_auto_is_free_of_the_order_of_whole_classes(low_auto_ranks):
    tasks = [of_classes(4), of_classes(2, 0), of_classes(5, 1, 3)]
    joint = model(rank="auto").fit(X, Y)

    assert max(one.rank for one in joint._state.model.moments) == 5
    assert_same(learn(model(rank="auto"), tasks), joint)
    first, second = learn(model(rank="auto"), tasks[:2]), learn(model(rank="auto"), tasks[2:])
    assert_same(first.merge(second), joint)


def test_forgetting_under_rank_auto_is_never_having_seen_the_class(low_auto_ranks):
    without = model(rank="auto").fit(X, Y).forget([1, 4])
    assert_same(without, model(rank="auto").fit(X[~np.isin(Y, [1, 4])], Y[~np.isin(Y, [1, 4])]))


@pytest.mark.parametrize("n_calls", [2, 5])
@exact
def test_a_class_in_several_calls_is_the_class_in_one(params, n_calls):
    in_parts = learn(model(**params), [of_classes(0, 1)])
    learn(in_parts, np.array_split(of_classes(2), n_calls))

    assert_same(in_parts, learn(model(**params), [of_classes(0, 1), of_classes(2)]))
    assert in_parts.n_tasks_ == 2


@exact_by_name
@given(calls=sample_partitions(), data=st.data())
@settings(max_examples=5)
def test_merging_is_associative_and_commutative_and_aligns_labels(name, calls, data):
    shards = [learn(model(**EXACT[name]), [call]) for call in calls]
    while len(shards) > 1:
        first = shards.pop(data.draw(st.integers(0, len(shards) - 1)))
        second = shards.pop(data.draw(st.integers(0, len(shards) - 1)))
        shards.append(first.merge(second))

    assert_same(shards[0], joint(name))


def test_a_merged_model_learns_on_and_the_other_is_left_as_it_was():
    first, other = learn(model(), [of_classes(5, 1)]), learn(model(), [of_classes(0, 4)])
    before = scores(other)

    learn(first.merge(other), [of_classes(2, 3)])

    assert_same(first, model().fit(X, Y))
    assert_array_equal(scores(other), before)


@exact
@given(
    tasks=task_orders(),
    gone=st.sets(st.integers(0, N_CLASSES - 1), min_size=1, max_size=N_CLASSES - 2),
)
@settings(max_examples=5)
def test_to_forget_is_never_to_have_seen(params, tasks, gone):
    clf = learn(model(**params), tasks).forget(sorted(gone))

    kept = of_classes(*(set(range(N_CLASSES)) - gone))
    assert_same(clf, model(**params).fit(X[kept], Y[kept]))


def test_what_was_forgotten_can_be_learnt_again():
    clf = model().fit(X, Y).forget([2, 5])

    assert_same(learn(clf, [of_classes(5), of_classes(2)]), model().fit(X, Y))


def assert_silent_on_the_past(clf, tasks):
    """Learn tasks with p the numerical rank of the past; new neurons must be 0 on all of it."""
    clf.partial_fit(*tasks[0])
    past, n_before = tasks[0][0], len(clf._state.model.trained.layers.bands)
    for samples, labels in tasks[1:]:
        below = [_layer(clf, past, layer) for layer in range(clf.n_layers)]
        clf.set_params(p=[int(np.linalg.matrix_rank(one)) for one in below])
        clf.partial_fit(samples, labels)
        new = clf._state.model.trained.layers.bands[n_before:]
        assert len(new) == clf.n_layers
        for band in new:
            old, now = (
                _layer(clf, one, band.layer - 1) @ band.weights.T for one in (past, samples)
            )
            assert np.abs(now).max() > 0.0
            assert np.abs(old).max() <= 1e-8 * np.abs(now).max()
        past, n_before = np.vstack([past, samples]), n_before + len(new)


def _layer(clf, samples, layer):
    """psi of some layer, from the weights alone; these tests use ReLU."""
    values = samples
    bands = clf._state.model.trained.layers.bands
    for below in range(1, layer + 1):
        columns = [
            np.maximum(values[:, : band.weights.shape[1]] @ band.weights.T, 0.0)
            for band in bands
            if band.layer == below
        ]
        values = np.hstack(columns)
    return values


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("old_statistics", ["gaussian", "zero"])
@pytest.mark.parametrize("init", ["multi", "mono", "random"])
def test_with_the_exact_null_space_new_neurons_are_silent_on_the_past(
    init, old_statistics, n_layers
):
    rng = np.random.default_rng(1)
    tasks = [
        (rng.normal(size=(12, 40)) + 3.0 * rng.normal(size=40), np.repeat([2 * t, 2 * t + 1], 6))
        for t in range(3)
    ]

    assert_silent_on_the_past(
        model(
            band_size=2, bands__init=init, bands__old_statistics=old_statistics, n_layers=n_layers
        ),
        tasks,
    )


def test_a_past_of_low_rank_with_many_samples_is_silenced_too():
    rng = np.random.default_rng(1)
    tasks = [
        (rng.normal(size=(60, 4)) @ rng.normal(size=(4, 20)), np.repeat([2 * t, 2 * t + 1], 30))
        for t in range(4)
    ]

    assert_silent_on_the_past(model(band_size=1), tasks)


@pytest.mark.parametrize("name", ["fpha", "sbu"])
def test_new_neurons_are_silent_on_the_past_of_real_data(shared_data, name):
    with np.load(shared_data / f"{name}_features.npz") as data:
        train = data["train"].astype(bool) if name == "fpha" else data["fold"] != 4
        samples, labels = data["X"][train].astype(float), data["y"][train]
    per_task = 5 if name == "fpha" else 1
    tasks = []
    for start in range(0, 5 * per_task, per_task):
        now = np.isin(labels, range(start, start + per_task))
        tasks.append((samples[now], labels[now]))

    assert_silent_on_the_past(model(band_size=1), tasks)


@pytest.mark.parametrize("rank", [None, 4])
def test_a_new_class_adds_its_pairs_and_moves_no_old_hyperplane(rank):
    clf = model(classifier="ovo", shrinkage=0.0, rank=rank)
    planes, offsets = np.empty((0, N_FEATURES + 20)), np.empty(0)
    for label in [3, 5, 0, 2, 1, 4]:
        learn(clf, [of_classes(label)])
        fisher = prediction.solve_once(clf._state.model, torch.device("cpu")).head
        n_classes = len(clf.classes_)
        assert len(fisher.planes) == len(fisher.offsets) == n_classes * (n_classes - 1) // 2
        # Block sizes depend on the number of classes, so planes are equal up to rounding.
        lengths = np.linalg.norm(planes, axis=1, keepdims=True)
        assert_allclose(fisher.planes[: len(planes)] / lengths, planes / lengths, atol=1e-10)
        assert_allclose(fisher.offsets[: len(planes)], offsets, rtol=1e-10)
        planes, offsets = fisher.planes.copy(), fisher.offsets.copy()


class _Ridged:
    """A covariance estimator for scikit-learn's LDA: the empirical covariance plus a ridge."""

    def __init__(self, ridges):
        self.ridges = ridges

    def fit(self, samples):
        covariance = np.atleast_2d(np.cov(samples.T, bias=True))
        self.covariance_ = covariance + np.diag(self.ridges)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("features", ["inputs only", "shared band only"])
def test_with_full_shrinkage_the_answer_is_that_of_ridge_lda(features, epsilon):
    clf = model(shrinkage=1.0, epsilon=epsilon)
    if features == "inputs only":
        clf.set_params(shared_band_size=0)
    else:
        # The setting of the core without a parameter of this classifier.
        clf.skip_connection = False
    clf.fit(X, Y)
    lifted, new = clf.transform(X), clf.transform(np.vstack([NEW, X]))
    within = lifted - np.stack([lifted[label == Y].mean(axis=0) for label in Y])
    variances = np.square(within).mean(axis=0)
    ridges = np.full(len(variances), epsilon * variances.mean())
    if features == "inputs only":
        penalties = variances + np.sort(variances)[(len(variances) - 1) // 2]
        ridges = epsilon * penalties * np.mean(variances / penalties)

    lda = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=_Ridged(ridges)).fit(
        lifted, Y
    )

    discriminants = lda.decision_function(new) - np.log(lda.priors_)  # as if all equally likely
    assert_array_equal(clf.predict(np.vstack([NEW, X])), lda.classes_[discriminants.argmax(axis=1)])


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"band_size": 1},
        {"band_size": 3},
        {"band_size": 1, "n_layers": 2},
        {"band_size": 3, "n_layers": 2, "bands__activation": "tanh"},
        {"band_size": 1, "bands__init": "random"},
        {"band_size": 1, "classifier": "ova"},
        {"band_size": 1, "rank": 3},
    ],
    ids=str,
)
def test_a_weight_of_k_is_k_repetitions(params):
    counts = RNG.integers(1, 5, size=len(Y))
    weighted, repeated = model(**params), model(**params)

    for part in (of_classes(0, 1), of_classes(2, 3), of_classes(1, 4, 5)):
        weighted.partial_fit(X[part], Y[part], sample_weight=counts[part])
        repeated.partial_fit(
            np.repeat(X[part], counts[part], axis=0), np.repeat(Y[part], counts[part])
        )

    assert_same(weighted, repeated, rtol=1e-7)


@pytest.mark.parametrize("copies", [3, 16])
@exact
def test_classes_of_equal_samples(params, copies):
    """They depend neither on the unit, nor on the calls they came in; a weight is as good."""
    Z = RNG.normal(size=(N_CLASSES, N_FEATURES)) / 3.0
    rows = np.repeat(np.arange(N_CLASSES), copies)
    reference = model(**params).fit(Z[rows], rows)
    parted = model(**params)
    for part in np.array_split(RNG.permutation(len(rows)), 4):
        parted.partial_fit(Z[rows[part]], rows[part])
    # Labels may come in another order.
    assert_same(parted, reference, rtol=1e-7)
    weights = np.full(N_CLASSES, float(copies))
    weighted = model(**params).fit(Z, np.arange(N_CLASSES), sample_weight=weights)
    assert_same(weighted, reference, rtol=1e-7)
    scaled = model(**params).fit(3.0 * Z[rows], rows)
    expected = scores(reference)
    atol = 1e-7 * np.abs(expected).max()
    assert_allclose(scores(scaled, 3.0 * NEW), expected, rtol=1e-7, atol=atol)


@exact
def test_classes_of_the_same_single_sample_are_even(params):
    """What rounding makes of the distance between them says nothing."""
    Z, same = RNG.normal(size=(8, N_FEATURES)), [0, 3, 7]
    Z[same] = Z[0]
    # The last row is alone in its chunk, where products round in another way.
    reference = model(**params, chunk_size=7).fit(Z, np.arange(8))
    expected = scores(reference)
    atol = 1e-7 * np.abs(expected).max()
    assert_allclose(expected[:, same], expected[:, [0, 0, 0]], atol=atol)
    one_by_one = model(**params)
    for label in RNG.permutation(8):
        one_by_one.partial_fit(Z[[label]], [label])
    assert_allclose(scores(one_by_one), expected, atol=atol)


def test_a_class_of_equal_samples_among_large_ones_leaves_the_shrinkage_to_them():
    n, copies = 2000, 16
    y = np.repeat([0, 1, 2], n)
    long_axes, centres = RNG.normal(size=(2, 3, N_FEATURES))
    many = RNG.normal(size=(3 * n, 1)) * long_axes[y] + 0.7 * centres[y]
    many += 0.05 * RNG.normal(size=many.shape)
    single = RNG.normal(size=(1, N_FEATURES)) / 3.0
    repeated = model(rank=64).fit(
        np.concatenate([many, single.repeat(copies, axis=0)]), np.r_[y, [3] * copies]
    )
    weighted = model(rank=64).fit(
        np.concatenate([many, single]),
        np.r_[y, 3],
        sample_weight=np.r_[np.ones(3 * n), copies],
    )
    assert_same(repeated, weighted, rtol=1e-6)
    assert repeated.shrinkage_ == pytest.approx(weighted.shrinkage_, rel=1e-6)


@pytest.mark.parametrize(("n", "factor"), [(48, 3.7), (400, 1e-20)])
@pytest.mark.parametrize("classifier", ["gaussian", "ovo", "ova"])
def test_a_common_factor_changes_nothing_though_neurons_are_cosines(classifier, n, factor):
    params = {"classifier": classifier, "shared_band_size": 120, "rank": "auto", "band_size": 1}
    # The automatic ridge has an estimate by random signs.
    params |= {"epsilon": 0.3}
    Z, y = make_gaussian_quantiles(n_samples=n + 200, n_features=3, n_classes=3, random_state=0)
    plain, scaled = (model(**params).fit(one * Z[:n], y[:n]) for one in (1.0, factor))
    assert len(plain._state.model.features.shared.frequencies) == 60
    expected = plain.predict_proba(Z)
    assert_allclose(scaled.predict_proba(factor * Z), expected, rtol=1e-5, atol=1e-6)
    assert_array_equal(scaled.predict(factor * Z), plain.predict(Z))
    half = [(model(**params | {"random_state": 1})) for _ in range(2)]
    for estimator, one in zip(half, (1.0, factor), strict=True):
        estimator.partial_fit(one * Z[: n // 2], y[: n // 2])
        estimator.partial_fit(one * Z[n // 2 : n], y[n // 2 : n])
        with pytest.warns(UserWarning, match=r"trace of the classes \[0\]"):
            estimator.forget([0])
    expected = half[0].predict_proba(Z)
    assert_allclose(half[1].predict_proba(factor * Z), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e6])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"band_size": 1},
        {"band_size": 2, "n_layers": 2},
        {"shrinkage": 0.0},
        {"band_size": 1, "covariance": "identity"},
        {"band_size": 1, "classifier": "ova"},
        {"band_size": 1, "bands__activation": "sigmoid"},
    ],
    ids=str,
)
def test_the_scale_of_the_features_does_not_matter(params, scale):
    plain, scaled = model(**params), model(**params)

    for part in (of_classes(0, 1), of_classes(2, 3), of_classes(4, 5)):
        plain.partial_fit(X[part], Y[part])
        scaled.partial_fit(scale * X[part], Y[part])

    expected = scores(plain)
    assert_allclose(scores(scaled, scale * NEW), expected, rtol=1e-7, atol=1e-7)
    assert_array_equal(scaled.predict(scale * NEW), plain.predict(NEW))


@pytest.mark.parametrize(
    "params",
    [{}, {"bands__activation": "tanh"}, {"bands__old_statistics": "zero"}, {"n_layers": 2}],
    ids=str,
)
def test_where_classes_are_cut_off_tiny_features_do_not_go_under_beside_neurons(params):
    # Two axes of each class: those of the neurons alone, if these were much larger.
    small, tiny = (
        model(**{"band_size": 2, "shared_band_size": 0, "rank": 2, **params}) for _ in range(2)
    )

    for part in (of_classes(0, 1), of_classes(2, 3), of_classes(4, 5)):
        small.partial_fit(1e-4 * X[part], Y[part])
        tiny.partial_fit(1e-40 * X[part], Y[part])

    assert_allclose(scores(tiny, 1e-40 * NEW), scores(small, 1e-4 * NEW), rtol=1e-6, atol=1e-6)
    largest = np.abs(tiny.transform(1e-40 * X)).max(axis=0)
    assert largest[N_FEATURES:].max() < 1e4 * largest[:N_FEATURES].max()


@pytest.mark.parametrize("shared_band_size", [0, 20])
def test_transform_never_gives_out_the_memory_of_its_input(shared_band_size):
    clf = learn(model(shared_band_size=shared_band_size), [np.arange(len(Y))])
    samples = NEW.copy()

    clf.transform(samples)[:] = 0.0

    assert_array_equal(samples, NEW)


@pytest.mark.parametrize("params", [{}, {"band_size": 1}, {"band_size": 2, "n_layers": 2}], ids=str)
def test_the_features_of_old_neurons_never_move(params):
    clf = model(**params)
    before = np.empty((len(NEW), 0))

    for label in range(4):
        learn(clf, [of_classes(label)])
        after = clf.transform(NEW)
        assert_array_equal(after[:, : before.shape[1]], before)
        before = after
    assert before.shape[1] == N_FEATURES + 20 + 4 * params.get("band_size", 0)


def test_the_same_stream_gives_the_same_bits():
    tasks = [of_classes(0, 1), of_classes(2, 3), of_classes(4, 5)]
    clf = model(band_size=2, n_layers=2)

    assert_array_equal(scores(learn(clone(clf), tasks)), scores(learn(clf, tasks)))


@pytest.mark.parametrize("scale", [1e-9, 1e9])
@pytest.mark.parametrize(
    "params",
    [{"rank": 3}, {"rank": 2, "shared_band_size": 0}, {"n_layers": 2, "rank": 3}],
    ids=repr,
)
def test_with_trained_bands_and_a_cut_rank_the_unit_does_not_matter(params, scale):
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(N_CLASSES), 40)
    Z = rng.normal(size=(len(y), N_FEATURES)) + 1.5 * rng.normal(size=(N_CLASSES, N_FEATURES))[y]
    plain, scaled = model(**params, band_size=2), model(**params, band_size=2)
    for labels in [(0, 1), (2, 3), (4, 5)]:
        now = np.isin(y, labels)
        plain.partial_fit(Z[now], y[now])
        scaled.partial_fit(scale * Z[now], y[now])

    expected = scores(plain)
    atol = 1e-7 * np.abs(expected).max()
    assert_allclose(scores(scaled, scale * NEW), expected, rtol=1e-7, atol=atol)


# A new neuron is silent on the single sample that it is left out of: layers above have no news.
@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.EmptyNullSpaceWarning")
@pytest.mark.parametrize("n_layers", [1, 3])
def test_classes_of_one_sample_that_come_one_by_one(n_layers):
    """What trained neurons say of a class by rounding alone counts for nothing."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        means = 2.0 * rng.normal(size=(3, 20))
        fresh = np.repeat(means, 30, axis=0) + 0.5 * rng.normal(size=(90, 20))

        def taught(unit, means=means, fresh=fresh, **params):
            clf = model(shared_band_size=0, **params)
            for label, mean in enumerate(means):
                clf.partial_fit(unit * mean[None], [label])
            return clf.decision_function(unit * fresh)

        bands = {"band_size": 1, "n_layers": n_layers}
        plain = taught(1.0, **bands)
        for unit in (100.0, 1.0 + 2.0**-50):
            assert_allclose(taught(unit, **bands), plain, atol=1e-6)
        assert_array_equal(plain.argmax(1), taught(1.0).argmax(1))
