"""Changes of what was learned without samples: forget, decay and merge."""

import warnings
from dataclasses import replace
from math import isnan
from numbers import Real

import numpy as np
from sklearn.utils.validation import check_scalar

from .._inputs.labels import check_labels, label_positions
from ..core.device import resolve_device
from ..core.messages import level_of_user
from ..core.revision import decay_classes, forget_classes, merge_models
from .priors import check_priors
from .settings import check_mergeable
from .transactions import exclusive

__all__ = ["RevisionMixin"]

# Weight of a class below which it does not decay, so that an endless stream does not end in 0.
_LIGHTEST = 1e-20


def _warn_of_trace(state, gone):
    """Warn if classes to be forgotten have decided the standardisation of the columns."""
    if state.repair_labels is None:
        return
    traced = np.intersect1d(state.repair_labels, gone)
    if len(traced):
        warnings.warn(
            f"offset_ and scale_ keep a trace of the classes {traced.tolist()}, whose samples "
            "decided the standardisation of the columns. Only a new fit removes it. With "
            "scale=False forgetting leaves no trace.",
            UserWarning,
            stacklevel=level_of_user(),
        )


class RevisionMixin:
    """Methods of `FFNBClassifier` that change its moments without samples."""

    @exclusive
    def forget(self, classes):
        """Forget classes, as if they had never been seen.

        Forgetting is exact, because each class has moments of its own. Two parameters that are off
        by default leave a trace: trained neurons stay (``band_size`` above 0), and so do `offset_`
        and `scale_` (``scale=True``), with a warning.

        Parameters
        ----------
        classes : label or array-like of labels
            Labels in `classes_`, seen or declared. If all labels seen are forgotten, the estimator
            is unfitted again.

        Returns
        -------
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.
        """
        state = self._learned_state()
        gone, lost = self._known(state, classes)
        is_all = len(lost) == len(state.arrived)
        if not is_all:
            _warn_of_trace(state, gone)
        self._keep(None if is_all else state.without(gone, forget_classes(state.model, lost)))
        return self

    @exclusive
    def decay(self, factor, classes=None):
        """Let the samples learned so far count less, compared with later samples.

        The weights of the samples are multiplied by a factor. With ``rank=None`` the result equals
        learning them with these weights as `sample_weight`. Trained neurons do not change.

        Parameters
        ----------
        factor : float
            Multiple of the weights, in (0, 1]. A class stops before its weight is below 1e-20.
        classes : label or array-like of labels, default=None
            Labels in `classes_` whose samples count less. None stands for all classes.

        Returns
        -------
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.
        """
        check_scalar(factor, "factor", Real, min_val=0.0, max_val=1.0, include_boundaries="right")
        if isnan(factor):
            raise ValueError("factor must be a number in (0, 1]; got nan.")
        state, factor = self._learned_state(), float(factor)
        _, fading = self._known(state, state.classes if classes is None else classes)
        moments = state.model.moments
        fading = [label for label in fading if factor * moments[label].weight >= _LIGHTEST]
        self._keep(replace(state, model=decay_classes(state.model, factor, fading)))
        return self

    def _known(self, state, classes):
        """Return labels in `classes_` as an array, and the numbers of those that were seen."""
        # An array of the labels of a list could turn all into strings or floats.
        labels = classes if np.ndim(classes) else [classes]
        labels = check_labels(labels, state.classes, "classes")
        unknown = np.setdiff1d(labels, state.classes)
        if len(unknown):
            raise ValueError(
                f"classes must be labels in classes_; got {unknown.tolist()}, known are "
                f"{state.classes.tolist()}."
            )
        return labels, np.flatnonzero(np.isin(state.arrived, labels)).tolist()

    @exclusive
    def merge(self, other):
        """Merge in everything that another estimator has learned from other samples.

        The result is that of one estimator that has seen all samples, up to the truncation by
        `rank` of classes that both know. With trained bands (``band_size`` above 0), the moments of
        each estimator's classes in the other's neurons are computed by `Bands.old_statistics`.

        Parameters
        ----------
        other : FFNBClassifier
            Estimator fitted on samples that this estimator has not seen, with equal parameters of
            learning, seed, `offset_` and `scale_`. It is not changed.

            Samples that both have learned, for example if one is a copy that has learned more,
            count twice. This is refused if a class has exactly the same moments in both, also if
            different samples happen to be equal; other repetitions leave no trace.

        Returns
        -------
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.

        Raises
        ------
        TypeError
            If `other` is not an `FFNBClassifier`.
        ValueError
            If the estimators differ in features, parameters or seed, or a class has the same
            moments in both.
        """
        if not isinstance(other, RevisionMixin):
            raise TypeError(f"other must be a fitted FFNBClassifier; got {type(other).__name__}.")
        mine, theirs = self._learned_state(), other._learned_state()
        check_mergeable(mine, theirs)
        _check_different_samples(mine, theirs)
        self._keep(self._merged(mine, theirs))
        return self

    def _merged(self, mine, theirs):
        """Return the state with everything that two mergeable states have learned."""
        merged = mine.merged(theirs)
        check_priors(self.priors, merged.arrived)
        positions, _ = label_positions(theirs.arrived, merged.arrived)
        device = resolve_device(self.device)
        model = merge_models(mine.model, theirs.model, positions.tolist(), device=device)
        return replace(merged, model=model)


def _check_different_samples(mine, theirs):
    """Raise if a class has the same moments in two states: they have learned the same samples."""
    features = mine.model.features
    # Trained bands differ, and moments keep their first columns if further bands are appended.
    n_shared = features.n_inputs + len(features.shared)
    known = dict(zip(mine.arrived.tolist(), mine.model.moments, strict=True))
    repeated = [
        label
        for label, moments in zip(theirs.arrived.tolist(), theirs.model.moments, strict=True)
        if label in known and known[label].equals(moments, n_shared)
    ]
    if repeated:
        raise ValueError(
            "other must have learned other samples than this estimator; the moments of classes "
            f"{repeated} are the same in both, so a merge would count the same samples twice. "
            "Merge each estimator once, and let an estimator that is merged again begin without "
            "these classes (forget), or empty. Equal samples that are to count twice can be "
            "learned by partial_fit."
        )
