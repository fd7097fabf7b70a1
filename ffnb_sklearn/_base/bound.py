"""The bound on forgetting of the newest task."""

from ..core.bands.bound import forgetting_bound

__all__ = ["BoundMixin"]


class BoundMixin:
    """Method of `FFNBClassifier` that computes Proposition 1 of the paper."""

    def forgetting_bound(self, X_previous):
        """Bound and measure how far the newest task's bands have moved previous features.

        Proposition 1 bounds the change of a neuron's output, which is constant before its task.

        Parameters
        ----------
        X_previous : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of previous tasks.

        Returns
        -------
        ForgettingBound
            Its attributes `bound` and `drift` are squared Frobenius norms, summed over the samples;
            `layers` has their terms in each layer.

        Raises
        ------
        ValueError
            If fewer than two tasks have brought bands, if no task is the newest because estimators
            were merged or classes forgotten since, or with ``Bands(batch_norm=True)``.
        """
        state = self._learned_state()
        if not state.model.settings.band_size:
            raise ValueError(
                "forgetting_bound needs trained bands, and this model has none: band_size is 0. "
                "Fit with a positive band_size, such as 3. Without trained bands no feature moves."
            )
        X, model = self._samples(state, X_previous), state.model
        is_normalised = any(band.batch_norm is not None for band in model.features.bands)
        if len(model.null_space_dims) < 2 or not model.n_newest or is_normalised:
            raise ValueError(
                "forgetting_bound needs two tasks that brought trained bands, with "
                "Bands(batch_norm=False), and no merge or forget after the newest task."
            )
        return forgetting_bound(model, X.double())
