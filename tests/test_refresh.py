"""Between two choices a new row solves its class alone; `solve` solves before a prediction."""

import copy
import pickle
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis, load, save
from ffnb_sklearn.core import prediction

DIGITS, LABELS = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(DIGITS))
DIGITS, LABELS = DIGITS[ORDER], LABELS[ORDER]
HEADS = ["gaussian", "ovo", "ova"]


def classifier(**parameters):
    kind = FFNBClassifier if "band_size" in parameters else IncrementalDiscriminantAnalysis
    return kind(**{"shared_band_size": 30, "random_state": 0, **parameters})


def learned(n_samples, **parameters):
    return classifier(**parameters).partial_fit(DIGITS[:n_samples], LABELS[:n_samples])


@pytest.fixture
def solutions(monkeypatch):
    """Return a list that grows by a name for every solution."""
    made = []
    for name in ("solve", "update_solution"):
        original = getattr(prediction, name)

        def counted(*arguments, name=name, original=original, **keywords):
            made.append(name)
            return original(*arguments, **keywords)

        monkeypatch.setattr(prediction, name, counted)
    return made


def solved_anew(model):
    """Return a copy whose classifier keeps no earlier choice."""
    return copy.deepcopy(model).decay(1.0)


def following(n_first, n_last, *, anew_each=25, **parameters):
    """Return shares over a stream of rows: labels as if solved anew, both accuracies."""
    model = learned(n_first, **parameters)
    alike, right, right_anew = [], [], []
    for row in range(n_first, n_last):
        sample, label = DIGITS[row : row + 1], LABELS[row : row + 1]
        model.predict(sample)
        model.partial_fit(sample, label)
        if row % anew_each:
            continue
        later, answers = slice(n_last, n_last + 200), []
        for each in (model, solved_anew(model)):
            answers.append(each.predict(DIGITS[later]))
        alike.append(np.mean(answers[0] == answers[1]))
        right.append(np.mean(answers[0] == LABELS[later]))
        right_anew.append(np.mean(answers[1] == LABELS[later]))
    return np.mean(alike), np.mean(right), np.mean(right_anew)


# ---- a solution that follows


@pytest.mark.parametrize("parameters", [{}, {"shared_band_size": 0, "shrinkage": 0.3}], ids=repr)
def test_labels_are_nearly_those_of_a_new_solution(parameters):
    alike, right, right_anew = following(300, 400, refresh=0.1, **parameters)
    assert alike > 0.97
    assert abs(right - right_anew) < 0.003


def test_the_share_of_growth_decides_what_is_solved(solutions):
    model = learned(100, refresh=0.05)
    for row in range(100, 112):
        model.predict(DIGITS[row : row + 1])
        model.partial_fit(DIGITS[row : row + 1], LABELS[row : row + 1])
    model.predict(DIGITS[:1])
    # The choice of 100 samples holds up to 105, and that of 106 up to 111.
    assert solutions == [
        "solve",
        *["update_solution"] * 5,
        "solve",
        *["update_solution"] * 5,
        "solve",
    ]


def test_without_a_growth_each_call_is_solved(solutions):
    model = learned(100)
    for row in range(100, 103):
        model.predict(DIGITS[:1])
        model.partial_fit(DIGITS[row : row + 1], LABELS[row : row + 1])
    model.predict(DIGITS[:1])
    assert solutions == ["solve"] * 4


def test_a_refreshed_solution_has_no_trace_of_earlier_ones():
    model = learned(100, refresh=0.05)
    model.predict(DIGITS[:1])
    model.partial_fit(DIGITS[100:110], LABELS[100:110])
    anew = solved_anew(model)
    assert_array_equal(model.predict_proba(DIGITS), anew.predict_proba(DIGITS))


def test_a_class_that_follows_has_the_distances_of_its_moments():
    given = {"shrinkage": 0.3, "epsilon": 0.5, "rank": None}
    model = learned(300, refresh=1.0, **given)
    model.predict(DIGITS[:1])
    model.partial_fit(DIGITS[300:320], LABELS[300:320])
    model.predict(DIGITS[:1])
    head = model._state.model.solution.head
    # Solving the same classes again under the same B changes nothing.
    everything = model._state.model.classifier_moments(range(10))
    whole = prediction.update_solution(
        model._state.model.solution,
        model._state.model.space,
        everything,
        range(10),
        device=prediction.torch.device("cpu"),
    ).head
    for name in ("planes", "offsets", "rows", "shifts"):
        assert_allclose(getattr(head, name), getattr(whole, name), rtol=1e-9, atol=1e-12)


def test_a_new_class_is_solved_with_all_others(solutions):
    seen = LABELS < 9
    model = classifier(refresh=1.0).partial_fit(DIGITS[seen], LABELS[seen])
    model.predict(DIGITS[:1])
    new = LABELS == 9
    model.partial_fit(DIGITS[new][:30], LABELS[new][:30])
    assert model.score(DIGITS[new], LABELS[new]) > 0.7
    assert solutions == ["solve", "solve"]


def test_calls_between_predictions_follow_together(solutions):
    model = learned(300, refresh=0.1)
    model.predict(DIGITS[:1])
    for row in range(300, 310):
        model.partial_fit(DIGITS[row : row + 1], LABELS[row : row + 1])
    one_call = learned(300, refresh=0.1)
    one_call.predict(DIGITS[:1])
    one_call.partial_fit(DIGITS[300:310], LABELS[300:310])
    model.predict(DIGITS[:1])
    assert solutions == ["solve", "solve", "update_solution"]
    assert_allclose(model.predict_proba(DIGITS), one_call.predict_proba(DIGITS), atol=1e-6)


@pytest.mark.parametrize("head", ["ovo", "ova"])
def test_other_heads_keep_the_choice(head, solutions):
    model = learned(300, refresh=0.1, classifier=head)
    model.predict(DIGITS[:1])
    chosen = model.shrinkage_, model.epsilon_
    model.partial_fit(DIGITS[300:310], LABELS[300:310])
    model.predict(DIGITS[:1])
    assert (model.shrinkage_, model.epsilon_) == chosen
    assert solutions == ["solve", "update_solution", "solve"]
    given = dict(zip(("shrinkage", "epsilon"), chosen, strict=True))
    fixed = learned(300, classifier=head, **given)
    fixed.partial_fit(DIGITS[300:310], LABELS[300:310])
    assert np.mean(model.predict(DIGITS) == fixed.predict(DIGITS)) > 0.99


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.forget([3]),
        lambda model: model.decay(0.99),
        lambda model: model.merge(learned(40, random_state=0).forget(LABELS[:20])),
        lambda model: model.set_params(shrinkage=0.4),
        lambda model: model.set_params(priors="empirical", classifier="ovo"),
    ],
)
def test_other_changes_are_solved_anew(change):
    model = learned(300, refresh=10.0)
    model.predict(DIGITS[:1])
    change(model)
    anew = solved_anew(model)
    assert_array_equal(model.predict_proba(DIGITS), anew.predict_proba(DIGITS))


def test_trained_bands_and_normal_classes_follow_too():
    bands = {"band_size": 1}
    for parameters in (bands, bands | {"covariance": "identity"}, {"shrinkage": 1.0}):
        model = learned(300, refresh=0.2, **parameters)
        model.predict(DIGITS[:1])
        model.partial_fit(DIGITS[300:320], LABELS[300:320])
        assert model.score(DIGITS, LABELS) > 0.85


def test_densities_of_normal_classes_follow():
    # Classes with covariances of their own.
    rng = np.random.default_rng(4)
    means = 1.5 * rng.standard_normal((5, 8))
    mixing = rng.standard_normal((5, 8, 8))
    labels = rng.permutation(np.repeat(np.arange(5), 200))
    X = np.einsum("ni,nij->nj", rng.standard_normal((1000, 8)), mixing[labels]) + means[labels]
    model = classifier(refresh=0.1).partial_fit(X[:950], labels[:950])
    model.predict(X[:1])
    assert model._state.model.solution.choice.candidate == "densities"
    model.partial_fit(X[950:], labels[950:])
    anew = solved_anew(model)
    assert np.mean(model.predict(X) == anew.predict(X)) > 0.97
    assert_allclose(model.predict_proba(X), anew.predict_proba(X), atol=0.12)


def resumed(model, tmp_path):
    """Return copies of a model: by copy, by pickle and by file."""
    save(model, tmp_path / "model.ffnb")
    return [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), load(tmp_path / "model.ffnb")]


# A growth of 2.0 is never reached.
@pytest.mark.parametrize(
    ("parameters", "refresh"),
    [({}, 0.1), ({"classifier": "ovo"}, 0.1), ({"band_size": 1}, 0.1), ({}, 2.0)],
    ids=repr,
)
def test_a_resumed_stream_is_the_same_stream(parameters, refresh, tmp_path):
    model = learned(100, refresh=refresh, **parameters)
    streams = [model, *resumed(model, tmp_path)]
    # Files of a model that was solved, that follows, and that has to be solved again.
    for stop in (105, 109, 140):
        for batch in range(stop - 4, stop):
            for each in streams:
                each.partial_fit(DIGITS[batch : batch + 1], LABELS[batch : batch + 1])
        model.predict(DIGITS[:1])
        new = resumed(model, tmp_path)
        expected = model.predict_proba(DIGITS[:400])
        for each in [*streams[1:], *new]:
            assert_array_equal(each.predict_proba(DIGITS[:400]), expected)
            assert each.refresh == refresh
        # The first copy goes on to the end.
        streams = [*streams[:2], *new]


def test_predictions_in_between_change_nothing():
    asked, unasked = learned(300, refresh=0.1), learned(300, refresh=0.1)
    for row in range(300, 340):
        for each in (asked, unasked):
            each.partial_fit(DIGITS[row : row + 1], LABELS[row : row + 1])
        asked.predict(DIGITS[:1])
    assert_array_equal(asked.predict_proba(DIGITS), unasked.predict_proba(DIGITS))


def test_novelty_scores_without_a_call_in_between_are_those_of_a_full_solution():
    plain, following = learned(300), learned(300, refresh=0.1)
    assert_allclose(following.score_samples(DIGITS), plain.score_samples(DIGITS), rtol=1e-9)


# Distances of the classifier itself, and distances that only novelty scores have.
@pytest.fixture(params=[{}, {"classifier": "ovo"}, {"band_size": 1}], ids=repr)
def with_novelty(request):
    return {"refresh": 0.2, "novelty": True, **request.param}


def test_novelty_scores_of_a_resumed_stream_are_those_of_the_stream(with_novelty, tmp_path):
    model = learned(200, **with_novelty)
    streams = [model]
    for stop in (205, 210):
        for row in range(stop - 5, stop):
            for each in streams:
                each.partial_fit(DIGITS[row : row + 1], LABELS[row : row + 1])
        new = resumed(model, tmp_path)
        expected = model.score_samples(DIGITS[:400])
        for each in [*streams[1:], *new]:
            assert_array_equal(each.score_samples(DIGITS[:400]), expected)
            assert each.novelty_threshold(0.05) == model.novelty_threshold(0.05)
        streams = [model, *new]


def test_a_row_of_a_known_class_is_judged_by_the_model_before_it(with_novelty):
    model = learned(200, **with_novelty)
    row, label = DIGITS[200:201], LABELS[200:201]
    (score,) = model.score_samples(row)
    model.partial_fit(row, label)
    number = model._state.arrived.tolist().index(label.item())
    left_out = model._state.model.left_out[number]
    (learned_weight,) = left_out.learned_weights[left_out.values == score]
    assert learned_weight == 200


def test_novelty_scores_follow_without_a_solution_of_all_classes(with_novelty, monkeypatch):
    solved = []
    original = prediction.fit_relative_distances

    def counted(*arguments, **keywords):
        solved.append(arguments)
        return original(*arguments, **keywords)

    monkeypatch.setattr(prediction, "fit_relative_distances", counted)
    model = learned(300, shared_band_size=100, **with_novelty)
    for row in range(300, 310):
        model.partial_fit(DIGITS[row : row + 1], LABELS[row : row + 1])
        model.score_samples(DIGITS[:1])
    assert len(solved) == 1
    following = model.score_samples(DIGITS)
    anew = solved_anew(model).score_samples(DIGITS)
    assert not np.array_equal(following, anew)
    assert_allclose(following, anew, rtol=0.1)


def test_deleted_samples_leave_no_former_moments():
    model = learned(300, refresh=1.0, rank=None)
    model.partial_fit(DIGITS[300:310], LABELS[300:310])
    assert any(model._state.model.chosen_from)
    for change in (
        lambda each: each.forget_samples(DIGITS[300:302], LABELS[300:302]),
        lambda each: each.forget([3]),
        lambda each: each.rename({1: 2, 2: 2}),
    ):
        changed = copy.deepcopy(model)
        change(changed)
        assert changed._state.model.chosen_from == ()


@pytest.mark.parametrize("value", [-0.1, "auto", None, float("nan")])
def test_bad_values(value):
    with pytest.raises(ValueError, match="refresh"):
        classifier(refresh=value).fit(DIGITS[:20], LABELS[:20])


# ---- solve


def test_solve_solves_once(solutions):
    model = learned(300)
    assert model.solve() is model
    assert solutions == ["solve"]
    assert model.shrinkage_ > 0.0
    model.predict(DIGITS[:5])
    model.solve()
    assert solutions == ["solve"]
    with pytest.raises(NotFittedError):
        classifier().solve()


def test_a_copy_that_learns_and_solves_is_exchanged(solutions):
    served = learned(300).solve()
    expected = served.predict_proba(DIGITS)
    new = copy.deepcopy(served)
    new.partial_fit(DIGITS[300:400], LABELS[300:400]).solve()
    assert_array_equal(served.predict_proba(DIGITS), expected)
    solutions.clear()
    served = new
    served.predict(DIGITS)
    assert solutions == []


def test_of_several_readers_one_solves(solutions):
    model = learned(600)
    start = threading.Barrier(4)
    found = []

    def read():
        start.wait()
        found.append(model.predict_proba(DIGITS[:50]))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert solutions == ["solve"]
    assert len(found) == 4
    for probabilities in found:
        assert_array_equal(probabilities, found[0])


def test_a_solution_that_fails_is_tried_again(monkeypatch):
    model = learned(300)

    def failing(*arguments, **keywords):
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(prediction, "solve", failing)
        with pytest.raises(RuntimeError, match="no memory"):
            model.predict(DIGITS[:1])
    assert model.score(DIGITS, LABELS) > 0.9
