"""Any order of calls on models, against one fit to the samples that are kept."""

import tempfile
import time
import warnings
from copy import deepcopy
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import numpy as np
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.multiclass import OneVsRestClassifier, OutputCodeClassifier

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    OpenSetClassifier,
    load,
    make_continual_pipeline,
    save,
)
from ffnb_sklearn._base.typicality import ScoreDistributions
from ffnb_sklearn.streams import evaluate_prequential

# Six classes of four to nine samples; a piece is the first or the second half of a class.
RNG = np.random.default_rng(0)
LABELS = np.repeat(np.arange(6), [4, 5, 6, 7, 8, 9])
ROWS = 2.0 * RNG.standard_normal((6, 4))[LABELS] + RNG.standard_normal((len(LABELS), 4))
NEW = 2.0 * RNG.standard_normal((10, 4))
ROWS_OF = [np.flatnonzero(np.equal(LABELS, label)) for label in range(6)]
PIECES = [half for rows in ROWS_OF for half in np.array_split(rows, 2)]
pieces = st.sets(st.integers(0, len(PIECES) - 1), min_size=1, max_size=4)

EXACT = {
    "default": {},
    "separate": {"shrinkage": 0.0},
    "pooled": {"shrinkage": 1.0},
    "one-vs-one": {"classifier": "ovo"},
    "one-vs-all": {"classifier": "ova"},
    "inputs": {"shared_band_size": 0},
    "empirical": {"priors": "empirical"},
}
BANDS = {
    "default": {},
    "two layers": {"n_layers": 2},
    "wide": {"band_size": 2, "bands__init": "mono"},
    "zero": {"bands__old_statistics": "zero", "bands__activation": "tanh"},
    "one-vs-all": {"classifier": "ova"},
    "identity": {"covariance": "identity"},
}

# Tools that combine classifiers of two classes.
TOOLS = {
    "one against the rest": OneVsRestClassifier,
    "codes": partial(OutputCodeClassifier, random_state=0),
}

# Parameters of all models: their moments are exact.
SMALL = {"shared_band_size": 6, "rank": None, "device": "cpu", "random_state": 0}


def samples(some):
    """Samples and labels of some pieces."""
    rows = np.concatenate([PIECES[piece] for piece in sorted(some)])
    return ROWS[rows], LABELS[rows]


def saved_and_loaded(estimator):
    """Return the estimator that a file holds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.ffnb")
        save(estimator, path)
        return load(path)


def plain(**parameters):
    """Return an unfitted model without bands."""
    return IncrementalDiscriminantAnalysis(**{**SMALL, **parameters})


def with_bands(**parameters):
    """Return an unfitted model with bands."""
    return FFNBClassifier().set_params(**{"band_size": 1, **SMALL, **parameters})


def assert_valid(one, known):
    """Check all that holds of any model that knows some pieces; return its outputs for NEW."""
    labels = np.unique([LABELS[PIECES[piece][0]] for piece in known])
    assert_array_equal(one.classes_, labels)
    assert_array_equal(np.sort(np.concatenate(one.task_classes_)), labels)
    assert one.n_tasks_ == len(one.task_classes_)
    probabilities, scores = one.predict_proba(NEW), one.decision_function(NEW)
    assert np.isfinite(scores).all()
    assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-9)
    assert_array_equal(one.predict(NEW), labels[probabilities.argmax(axis=1)])
    return scores, probabilities


class Calls(RuleBasedStateMachine):
    """Models, each beside the pieces that it is to know.

    A subclass makes an unfitted model, chooses its parameters, and says what a model that knows
    some pieces is compared with.
    """

    models = Bundle("models")
    make: staticmethod
    parameters: MappingProxyType
    n_steps = n_comparisons = 0

    @initialize(data=st.data())
    def choose(self, data):
        self.name = data.draw(st.sampled_from(sorted(self.parameters)))
        self.blank = self.make(**self.parameters[self.name])
        # The choice is no step.
        Calls.n_steps -= 1

    @invariant()
    def count(self):
        Calls.n_steps += 1

    def checked(self, one, known):
        """Return a model with what it is to know, which is compared; unfitted if that is none."""
        Calls.n_comparisons += 1
        if known:
            self.compare(one, known, *assert_valid(one, known))
        else:
            assert not hasattr(one, "classes_")
        return one, frozenset(known)

    def compare(self, one, known, scores, probabilities):
        """Check a model that knows some pieces, and its outputs for NEW."""

    @rule(target=models, some=pieces)
    def begin(self, some):
        return self.checked(clone(self.blank).partial_fit(*samples(some)), some)

    @rule(target=models, old=models, some=pieces)
    def learn(self, old, some):
        one, known = old
        some -= known
        if not some:
            return old
        learned = deepcopy(one).partial_fit(*samples(some))
        # The copy has learned; the other is as it was.
        self.checked(one, known)
        return self.checked(learned, known | some)

    @rule(target=models, first=models, second=models)
    def merge(self, first, second):
        if not first[1] or not second[1] or first[1] & second[1]:
            return first
        merged = deepcopy(first[0]).merge(second[0])
        self.checked(*second)
        return self.checked(merged, first[1] | second[1])

    @rule(target=models, old=models, data=st.data())
    def forget(self, old, data):
        one, known = old
        if not known:
            return old
        gone = data.draw(st.sets(st.sampled_from(one.classes_.tolist()), min_size=1))
        kept = {piece for piece in known if LABELS[PIECES[piece][0]] not in gone}
        return self.checked(deepcopy(one).forget(sorted(gone)), kept)

    @rule(old=models, data=st.data())
    def rename(self, old, data):
        one, known = old
        if not known:
            return
        old_names = one.classes_
        new_names = np.array(data.draw(st.permutations(range(10))))[: len(old_names)]
        renamed = deepcopy(one).rename(dict(zip(old_names.tolist(), new_names, strict=True)))
        columns = np.argsort(new_names)
        assert_array_equal(renamed.classes_, new_names[columns])
        assert_allclose(
            renamed.predict_proba(NEW), one.predict_proba(NEW)[:, columns], rtol=0.0, atol=1e-6
        )
        back = renamed.rename(dict(zip(new_names.tolist(), old_names, strict=True)))
        self.checked(back, known)

    @rule(target=models, old=models)
    def save_and_load(self, old):
        one, known = old
        loaded = saved_and_loaded(one)
        if known:
            assert loaded.decision_function(NEW).tobytes() == one.decision_function(NEW).tobytes()
        return self.checked(loaded, known)

    @rule(old=models)
    def clone_is_blank(self, old):
        self.checked(clone(old[0]), ())

    @rule(old=models, some=pieces)
    def fail(self, old, some):
        one, known = old
        X, y = samples(some)
        for wrong in ((X[:, :3], y), (X, y.astype(str)), (X * np.nan, y)):
            # Labels of another kind are fine where none are known.
            if known:
                self.refused(one, *wrong)
        self.checked(one, known)

    @staticmethod
    def refused(one, X, y):
        """Check that samples are refused."""
        try:
            one.partial_fit(X, y)
        except ValueError:
            return
        raise AssertionError("samples that do not fit were learned")


@lru_cache(maxsize=2000)
def joint_fit(name, known):
    """Scores and probabilities of one fit to some pieces, without bands."""
    joint = plain(**EXACT[name]).fit(*samples(known))
    return joint.decision_function(NEW), joint.predict_proba(NEW)


class ExactCalls(Calls):
    """Without bands a model is that of one fit to all that it knows, up to rounding."""

    make = staticmethod(plain)
    parameters = MappingProxyType(EXACT)
    # Share of the largest score. Moments agree to 1e-15, but the temperature, which divides the
    # scores, depends on the root of a matrix that may be singular: it agrees to 3e-8.
    tolerance = 1e-6

    @rule(target=Calls.models, old=Calls.models, data=st.data())
    def forget_samples(self, old, data):
        one, known = old
        if not known:
            return old
        gone = data.draw(st.sets(st.sampled_from(sorted(known)), min_size=1))
        return self.checked(deepcopy(one).forget_samples(*samples(gone)), known - gone)

    @rule(old=Calls.models, data=st.data())
    def join(self, old, data):
        one, known = old
        if not known:
            return
        names = data.draw(st.lists(st.integers(0, 2), min_size=6, max_size=6))
        mapping = {label: names[label] for label in one.classes_.tolist()}
        joined = deepcopy(one).rename(mapping)
        X, y = samples(known)
        expected = clone(self.blank).fit(X, np.array(names)[y])
        assert_array_equal(joined.classes_, expected.classes_)
        assert_allclose(joined.class_counts_, expected.class_counts_)
        assert_allclose(
            joined.predict_proba(NEW), expected.predict_proba(NEW), rtol=0.0, atol=self.tolerance
        )

    def compare(self, one, known, scores, probabilities):
        expected, joint_probabilities = joint_fit(self.name, frozenset(known))
        atol = self.tolerance * max(1.0, np.abs(expected).max())
        assert_allclose(scores, expected, rtol=0.0, atol=atol)
        assert_allclose(probabilities, joint_probabilities, rtol=0.0, atol=atol)


class BandCalls(Calls):
    """With bands the moments of the inputs are those of one fit, and neurons are finite."""

    make = staticmethod(with_bands)
    parameters = MappingProxyType(BANDS)

    def compare(self, one, known, scores, probabilities):
        n_inputs = ROWS.shape[1]
        rows, labels = samples(known)
        features = one.transform(rows)
        assert_array_equal(features[:, :n_inputs], rows)
        assert np.isfinite(features).all()
        # Moments of the inputs do not depend on neurons.
        state = one._learned_state()
        for label, moments in zip(state.arrived, state.model.moments, strict=True):
            own = rows[labels == label]
            assert_allclose(moments.weight, len(own))
            assert_allclose(moments.mean[:n_inputs], own.mean(axis=0), atol=1e-9)


class OpenSetCalls(RuleBasedStateMachine):
    """An `OpenSetClassifier`, beside an `IncrementalDiscriminantAnalysis` that gets the same calls.

    Thresholds depend on the order of calls, because the scores of left-out samples come from the
    model at the time of the call. So thresholds, probabilities and labels are compared with those
    that follow from what the plain classifier has stored.
    """

    @initialize(name=st.sampled_from(sorted(EXACT)), refresh=st.sampled_from([0.0, 0.5]))
    def begin(self, name, refresh):
        # With `refresh`, a model from a file has to follow the same solutions as the plain one.
        blank = plain(**EXACT[name], refresh=refresh)
        self.open_set = OpenSetClassifier(blank)
        self.plain = clone(blank).set_params(novelty=True)

    def labels(self):
        """Return the labels that are known."""
        return getattr(self.plain, "classes_", np.empty(0)).tolist()

    @invariant()
    def judges_by_what_is_stored(self):
        Calls.n_steps += 1
        if not self.labels():
            assert not hasattr(self.open_set, "classes_")
            return
        assert_array_equal(self.open_set.classes_, self.labels())
        # No stored score is of a model of more samples than all that are left.
        total = self.plain.class_counts_.sum()
        for each in self.plain._state.left_out_scores():
            assert each.learned_weights.max(initial=0.0) <= total * (1.0 + 1e-9)
            assert each.arrived_weights.sum() <= total * (1.0 + 1e-9)
        scores = self.plain.score_samples(NEW)
        rate = self.open_set.rate
        distributions = ScoreDistributions.from_left_out(self.plain._state.left_out_scores())
        shares = distributions.shares_below(scores, 1.0 / rate)
        expected = np.prod(shares ** self.plain.predict_proba(NEW), axis=1)
        p_values = self.open_set.score_samples(NEW)
        assert_allclose(p_values, expected, rtol=1e-9, atol=1e-12)
        predicted = self.open_set.predict(NEW)
        assert_array_equal(predicted, np.where(p_values < rate, -1, self.plain.predict(NEW)))
        probabilities = self.open_set.predict_proba(NEW)
        assert_allclose(probabilities, self.plain.predict_proba(NEW))
        assert_allclose(self.open_set.class_counts_, self.plain.class_counts_)
        Calls.n_comparisons += 1

    @rule(some=pieces)
    def learn(self, some):
        for each in (self.open_set, self.plain):
            each.partial_fit(*samples(some))

    @rule(some=pieces)
    def fit(self, some):
        for each in (self.open_set, self.plain):
            each.fit(*samples(some))

    @precondition(labels)
    @rule(some=pieces)
    def merge(self, some):
        other = clone(self.plain).fit(*samples(some))
        # Equal moments of a class are those of the same samples.
        pairs = zip(other.classes_.tolist(), other.class_counts_, strict=True)
        plain_counts = dict(zip(self.labels(), self.plain.class_counts_, strict=True))
        if not any(plain_counts.get(label) == count for label, count in pairs):
            self.open_set.estimator_.merge(other)
            self.plain.merge(other)

    @precondition(labels)
    @rule(data=st.data())
    def forget(self, data):
        gone = data.draw(st.sets(st.sampled_from(self.labels()), min_size=1))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The novelty scores of other classes", UserWarning)
            for each in (self.open_set, self.plain):
                each.forget(sorted(gone))

    @precondition(labels)
    @rule(data=st.data())
    def forget_samples(self, data):
        # A class loses the samples of a whole piece, if it has more.
        label = data.draw(st.sampled_from(self.labels()))
        numbers = [number for number, rows in enumerate(PIECES) if LABELS[rows[0]] == label]
        if numbers:
            X, y = samples(numbers[:1])
            errors = [self.error_of(each, X, y) for each in (self.open_set.estimator_, self.plain)]
            assert errors[0] == errors[1]

    @staticmethod
    def error_of(classifier, X, y):
        """Forget samples, and return the message if the class cannot have had them."""
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "forget_samples deletes the novelty", UserWarning)
                classifier.forget_samples(X, y)
        except ValueError as error:
            return str(error)
        return None

    @precondition(labels)
    @rule(factor=st.sampled_from([0.5, 1.0]), data=st.data())
    def decay(self, factor, data):
        some = data.draw(st.sets(st.sampled_from(self.labels()), min_size=1))
        if self.plain.class_counts_.min() > 0.1:
            for each in (self.open_set, self.plain):
                each.decay(factor, sorted(some))

    @precondition(labels)
    @rule(data=st.data())
    def rename(self, data):
        # Equal labels join classes.
        names = data.draw(st.lists(st.integers(0, 9), min_size=10, max_size=10))
        mapping = {label: names[label] for label in self.labels()}
        for each in (self.open_set, self.plain):
            each.rename(mapping)

    @rule(rate=st.sampled_from([0.01, 0.05, 0.5]))
    def change_rate(self, rate):
        self.open_set.set_params(rate=rate)

    @rule()
    def copy(self):
        self.open_set = deepcopy(self.open_set)

    @rule()
    def save_and_load(self):
        self.open_set = saved_and_loaded(self.open_set)

    @rule(first=pieces, second=pieces, data=st.data())
    def forget_in_silence(self, first, second, data):
        """Forget classes; without a warning, the others are as if these had never been learned."""
        learned = clone(self.open_set)
        for task in (first, second):
            learned.partial_fit(*samples(task))
        newest = np.unique(samples(second)[1]).tolist()
        gone = data.draw(st.sets(st.sampled_from(newest), min_size=1, max_size=2))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            learned.forget(sorted(gone))
        if caught:
            return
        expected = clone(self.open_set)
        for task in (first, second):
            kept = {piece for piece in task if LABELS[PIECES[piece][0]] not in gone}
            if kept:
                expected.partial_fit(*samples(kept))
        if not hasattr(expected, "classes_"):
            assert not hasattr(learned, "classes_")
            return
        assert_allclose(learned.score_samples(NEW), expected.score_samples(NEW), atol=1e-6)

    @rule(some=pieces)
    def evaluate_within_a_pipeline(self, some):
        X, y = samples(some)
        if len(y) < 4:
            return
        single = clone(self.open_set)
        results = [
            evaluate_prequential(each, X, y, batch_size=3)
            for each in (single, make_continual_pipeline(single))
        ]
        assert_array_equal(results[0].is_correct, results[1].is_correct)

    @rule(some=pieces, name=st.sampled_from(sorted(TOOLS)))
    def combine(self, some, name):
        """Let a tool combine classifiers of two classes; the unknown label is none of them.

        A tool reads the probabilities of an `OpenSetClassifier`, which has no scores of classes,
        but the scores of the plain classifier. So a few labels may differ.
        """
        X, y = samples(some)
        if len(np.unique(y)) < 3:
            return
        found, expected = (
            TOOLS[name](clone(each)).fit(X, y) for each in (self.open_set, self.plain)
        )
        assert np.mean(found.predict(X) == expected.predict(X)) > 0.5
        if find_spec("skops"):
            assert_array_equal(saved_and_loaded(found).predict(NEW), found.predict(NEW))

    @precondition(labels)
    @rule()
    def fail(self):
        for call in (
            lambda: self.open_set.partial_fit(NEW, np.full(len(NEW), -1)),
            lambda: self.open_set.partial_fit(np.full_like(NEW, np.nan), np.zeros(len(NEW))),
            lambda: self.open_set.rename({self.labels()[0]: -1}),
            lambda: self.open_set.forget([-1]),
        ):
            try:
                call()
            except ValueError:
                continue
            raise AssertionError("a call that does not fit was not refused")


def run(machine, n_examples, n_steps=30, **options):
    """Run a machine; a step that disagrees raises, after hypothesis has made the example small.

    Parameters
    ----------
    machine : type
        `ExactCalls`, `BandCalls` or `OpenSetCalls`.
    n_examples : int
        Sequences of calls.
    n_steps : int, default=30
        Calls of the longest of them.
    **options
        Other settings of hypothesis.
    """
    values = {
        "max_examples": n_examples,
        "stateful_step_count": n_steps,
        "database": None,
        "deadline": None,
        "suppress_health_check": list(HealthCheck),
        **options,
    }
    run_state_machine_as_test(machine, settings=settings(**values))


def fuzz(arguments):
    """Make random sequences of calls until there are enough steps; return 0 if none disagrees."""
    # Bands keep a trace of forgotten classes, and merge inexactly.
    warnings.simplefilter("ignore", UserWarning)
    for machine in (ExactCalls, BandCalls, OpenSetCalls):
        start, batch = time.perf_counter(), arguments.seed
        Calls.n_steps = Calls.n_comparisons = 0
        while Calls.n_steps < arguments.steps // 3:
            run(seed(batch)(machine), 20)
            batch += 1
            if batch % 2 == 0:
                _report(machine, arguments.seed, batch, start)
        _report(machine, arguments.seed, batch, start)
    return 0


def _report(machine, first, stop, start):
    print(
        f"{machine.__name__}: {Calls.n_steps} steps, {Calls.n_comparisons} comparisons without "
        f"disagreement, seeds {first} to {stop - 1} ({time.perf_counter() - start:.0f} s)",
        flush=True,
    )
