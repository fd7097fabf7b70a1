"""Changes of what was learned without samples: forget, decay and merge."""

import warnings
from dataclasses import replace
from numbers import Real

import numpy as np
from sklearn.utils.validation import check_scalar

from .._inputs.labels import check_labels, label_positions
from ..core.device import resolve_device
from ..core.messages import level_of_user
from ..core.revision import decay_classes, forget_classes, merge_models
from .priors import check_priors
from .settings import check_mergeable
from .transactions import learning_lock

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
        with learning_lock(self):
            state = self._learned_state()
            gone, lost = self._known(state, classes)
            is_all = len(lost) == len(state.arrived)
            if not is_all:
                _warn_of_trace(state, gone)
            self._keep(None if is_all else state.without(gone, forget_classes(state.model, lost)))
        return self

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
        with learning_lock(self):
            state, factor = self._learned_state(), float(factor)
            _, fading = self._known(state, state.classes if classes is None else classes)
            moments = state.model.moments
            fading = [label for label in fading if factor * moments[label].weight >= _LIGHTEST]
            self._keep(replace(state, model=decay_classes(state.model, factor, fading)))
        return self

    def _known(self, state, classes):
        """Return labels in `classes_` as an array, and the numbers of those that were seen."""
        labels = check_labels(np.atleast_1d(classes), state.classes, "classes")
        unknown = np.setdiff1d(labels, state.classes)
        if len(unknown):
            raise ValueError(
                f"classes must be labels in classes_; got {unknown.tolist()}, known are "
                f"{state.classes.tolist()}."
            )
        return labels, np.flatnonzero(np.isin(state.arrived, labels)).tolist()

    def merge(self, other):
        """Merge in everything that another estimator has learned from other samples.

        The result is that of one estimator that has seen all samples, up to the truncation by
        `rank` of classes that both know. With trained bands (``band_size`` above 0), the moments of
        each estimator's classes in the other's neurons are computed by `Bands.old_statistics`.

        Parameters
        ----------
        other : FFNBClassifier
            Estimator fitted on samples that this estimator has not seen, with equal parameters of
            learning, seed and repair of columns. It is not changed.

        Returns
        -------
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.
        """
        if not isinstance(other, RevisionMixin):
            raise TypeError(f"other must be a fitted FFNBClassifier; got {type(other).__name__}.")
        with learning_lock(self):
            mine, theirs = self._learned_state(), other._learned_state()
            check_mergeable(mine, theirs)
            merged = mine.merged(theirs)
            check_priors(self.priors, merged.arrived)
            positions, _ = label_positions(theirs.arrived, merged.arrived)
            device = resolve_device(self.device)
            model = merge_models(mine.model, theirs.model, positions.tolist(), device=device)
            self._keep(replace(merged, model=model))
        return self
