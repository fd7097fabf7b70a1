"""The estimator: scikit-learn's interface to the models of `ffnb_sklearn.core`."""

import numpy as np
from sklearn.base import _fit_context

from ._block_classifier import BlockClassifier
from ._targets import check_labels, label_positions
from ._validation import check_mergeable
from .core.bound import forgetting_bound
from .core.device import resolve_device
from .core.revision import forget_classes, merge_models

__all__ = ["FFNBClassifier"]


class FFNBClassifier(BlockClassifier):
    """Forgetting-free neural blocks: learns new classes as they come, and keeps the old ones.

    Each call of `partial_fit` may bring labels never seen before. They form a task: bands of
    neurons are trained for them in the null-space of what came before, the moments of each
    class are kept, and the samples are not. The classifier, by default distances to the
    Gaussians of the classes, is solved from the moments at the first prediction.

    Parameters
    ----------
    p : int, float or sequence of these, default=0.95
        Axes kept for previous tasks, out of reach of new neurons [1]_ (Eq. 1): their number,
        or the share of energy in (0, 1) that they hold. A sequence has one entry per layer.
    band_size : int, default=1
        Trained neurons per new class and layer. With 0 no neuron is trained, and the model
        depends neither on the order of the tasks nor on how they were cut.
    n_layers : int, default=1
        Layers of trained bands. The classifier sees the last one.
    shared_band_size : int or "auto", default="auto"
        Random ReLU neurons that are drawn once and never trained; up to half of them are cosines
        where inputs are few. Beside a skip connection, which already carries their linear part,
        each ReLU is the sum of two mirrored ones. "auto" is 2000, for inputs of any width, or 0 for
        sparse samples that are projected, see Notes.
    skip_connection : bool, default=True
        Whether the classifier also sees the inputs, or their projection.
    activation : {"relu", "tanh", "sigmoid"}, default="relu"
        Activation of the trained bands.
    init : {"multi", "mono", "random"}, default="multi"
        How trained neurons are set: by regression of their code on the moments of all tasks
        [1]_ (Eq. 7), on those of the current one (Eq. 6), or at random.
    gamma : float, default=0.1
        Ridge of that regression, relative to the mean energy of a feature; less than 1e-4 counts
        as 1e-4. See `units`.
    null_space : bool, default=True
        Whether new neurons are confined to the null-space of previous tasks.
    covariance : {"class", "identity"}, default="class"
        Whether classes have covariances of their own ("heteroscedasticity"), or all have the
        identity times the mean variance.
    shrinkage : float or "auto", default="auto"
        Share in [0, 1] of the pooled covariance in that of a class: 0 are class covariances as in
        [1]_, 1 is linear discriminant analysis. "auto" is the intensity of Ledoit and Wolf [3]_, at
        most 0.9, see Notes.
    epsilon : float or "auto", default="auto"
        Positive ridge, relative to the mean variance within classes. "auto" is the same intensity,
        or 0.3 with ``classifier="ova"`` or ``shrinkage=0``. See `units`.
    rank : int, "auto" or None, default="auto"
        Principal axes kept of each class's scatter; the variance outside of them is kept
        per feature. None keeps the scatter exactly. "auto" keeps the axes that hold 95 % of the
        variance of a class, at least 64 and at most 128. Of more samples than one and a half times
        `rank` the axes are found nearly, see Notes.
    max_state_mb : float or None, default=None
        Megabytes that the moments of all classes may take in memory. Where they would take more,
        the classes with the most axes keep fewer. None sets no bound.
    classifier : {"gaussian", "ovo", "ova"}, default="gaussian"
        Regularised Mahalanobis distances to the classes, the aggregated discriminants of all pairs
        of classes as in [1]_, or one ridge regression per class. A prediction costs C classes
        with distances and C (C - 1) / 2 hyperplanes with pairs.
    chunk_size : int, default=4096
        Number of samples whose features are held at a time, in learning and in prediction. With
        ``band_size=0`` nothing else of the size of X is made, so that X may be a memory map
        of float64 or float32 numbers that is larger than memory.
    old_statistics : {"gaussian", "zero"}, default="gaussian"
        What old classes, whose data is gone, give in new neurons: what Gaussians with their
        moments would give, or nothing, as in [1]_.
    units : {"relative", "absolute"}, default="relative"
        Unit of `gamma`, `epsilon`, `learning_rate` and `weight_decay`: relative to the features,
        so that the results do not depend on their unit, or 1, as in [1]_. An absolute epsilon is
        the ridge of a pair of classes; the ridge of a single covariance is half of it. Outputs of
        bands have the unit of the inputs in the first case, and none in the second.
    half_bias : bool, default=True
        Whether the thresholds of pairs lie midway between the means, or have the bias that [1]_
        prints, without the factor 1/2. Only with ``classifier="ovo"`` and in fine-tuning.
    training : BandTraining or None, default=None
        Improvements over the training of bands in [1]_. None is ``BandTraining()``, with all of
        them.
    max_epochs : int, default=0
        Most epochs of end-to-end fine-tuning of each task's bands [1]_ (Algorithm 2). With 0, bands
        stay as their initialisation set them. Unless `training` says otherwise, samples are judged
        by bands that have not seen them, fine-tuning ends after 10 epochs without a lower loss, the
        best epoch counts if it is better than the start by more than two standard errors, and with
        ``old_statistics="gaussian"`` the loss also sees draws from the Gaussians of old classes.
    learning_rate : float, default=0.003
        First rate of the descent, relative to the mean square length of a layer's inputs (see
        `units`). It shrinks by 1 % after an epoch in which the loss changed by more than in the one
        before, and grows by as much after any other.
    momentum : float, default=0.9
        Momentum of the descent, in [0, 1).
    weight_decay : float, default=0.0
        Weight decay on the coordinates of new rows, relative like the rate.
    batch_size : int, default=50
        Samples of a mini-batch, for the descent and for `batch_norm`.
    batch_norm : bool, default=False
        Batch normalisation of trained neurons before their activation, with running
        statistics. An ablation: these move with every task, so that old features change.
    classes_per_task : int or None, default=None
        Only for `fit`: stream the classes, sorted, in this many per task. None makes them
        one task.
    device : str, default="auto"
        Where to compute: "auto", "cpu", "cuda", "cuda:0", "mps". It is resolved at each call
        and no trace of it is kept.
    random_state : int, RandomState instance or None, default=None
        Seed of the shared band, of ``init="random"`` and of the projection of sparse samples. Two
        models can be merged only if their seeds are equal.
    verbose : bool or int, default=False
        Whether to print a line for every task, and with 2 or more one for every epoch too.
    priors : {"uniform", "empirical"} or mapping of label to float, default="uniform"
        Shares of the classes among the samples to come: equal, those of the weights learned, or
        positive weights of any sum. A mapping has every label learned, and may have labels still to
        come. `set_params` may change it at any time: the next prediction follows, and nothing is
        learned or solved again. See Notes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted: the columns of `predict_proba` and
        `decision_function`. Columns move when a label arrives that sorts before others.
    n_features_in_ : int
        Number of features seen at the first task.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, where X had string column names.
    n_tasks_ : int
        Number of tasks that brought new labels.
    task_classes_ : list of ndarray
        The labels that each task brought.
    n_parameters_ : int
        Number of weights in the bands and in the classifier.
    null_space_dims_ : list of tuple of int
        Per task that brought bands, the number of residual axes of each layer.
    n_iter_ : int
        Epochs run for the last task.
    loss_curve_ : list of float
        Loss of the last task after each of these epochs.
    shrinkage_ : float
        The shrinkage that the classifier is solved with. Like a prediction, reading it solves
        the classifier; displaying the estimator does not.
    epsilon_ : float
        The relative ridge, likewise.

    See Also
    --------
    ContinualPipeline : A pipeline whose last step learns task by task.

    Notes
    -----
    The parameters are those of the features the classifier sees (`shared_band_size`,
    `skip_connection`), of the classifier (`classifier`, `rank`, `shrinkage`, `epsilon`, `priors`,
    `covariance`, `units`, `half_bias`), of trained bands (`p`, `band_size`, `n_layers`,
    `activation`, `init`, `gamma`, `null_space`, `old_statistics`, `batch_norm`), of their
    fine-tuning (`max_epochs`, `learning_rate`, `momentum`, `weight_decay`, `batch_size`,
    `training`), and of a run (`classes_per_task`, `chunk_size`, `max_state_mb`, `device`,
    `random_state`, `verbose`). By default the trained bands add little.

    Every call that learns is a transaction: whatever it raises, the estimator predicts as before.
    Another thread that predicts meanwhile finds what was known before the call, or after it.
    If two threads let it learn at once, the call that ends second raises `ConcurrentLearningError`
    and changes nothing.

    Where the shrinkage is "auto", it is the sampling error of the class covariances over their
    squared distance from the pooled covariance, both measured in the metric of the pooled
    covariance [3]_: many samples of unlike classes leave each class its own covariance, few
    samples or equal covariances give linear discriminant analysis. Where shrinkage or ridge is
    "auto", the weight of the inputs beside the shared band is the one of three candidates with the
    least left-out cross-entropy of the pooled discriminant, which follows from the moments in
    closed form. No sample is needed, the order of the tasks plays no part, and at most twelve
    classes of two samples or more are judged.

    The first prediction after a call that learns solves the classifier, and takes longer than
    others. It is there that an `IllConditionedWarning` or a `NotPositiveDefiniteError` shows, if
    the ridge is too small. What was solved is part of a pickle and of a file.

    With more than three times as many features as `rank`, the axes of a class of many samples come
    from a randomised subspace iteration [2]_, whose directions are drawn with a seed of their own:
    strong axes are those of the scatter, and weak ones, which differ little from the next,
    are mixed with these.

    With ``classifier="gaussian"`` `predict_proba` is the softmax of the scores. With "ovo" the
    score of a class is the sum of its pair outputs, each in (-1, 1): it lies between 1 - C and
    C - 1 for C classes seen.

    `priors` multiply the probabilities of ``classifier="gaussian"`` and "ovo", which are then
    divided by their sum; a prior is a share of the classes seen. `decision_function` and `predict`
    agree with the probabilities: "gaussian" adds the logarithm of C times the prior to a score, and
    "ovo" divides the expected losses of a class by C times its prior, so that scores may fall below
    1 - C. The regression of "ova" depends on the shares of the classes, and is that for the priors:
    with "empirical" it is the plain ridge regression of the indicators.

    X may be sparse in every method. If the first samples are sparse and have more than 2000
    features, the inputs of a model without neurons (``band_size=0`` and a `shared_band_size` of 0
    or "auto") stay sparse, and `rank` "auto" is 8. More than 65536 features are projected onto so
    many columns by a sparse random projection [4]_. A model with neurons sees a projection onto
    2000 columns. The projection depends on `random_state` and the number of features alone, and
    later samples may be sparse or dense. All other sparse samples have the results of dense ones.

    What is kept of the data are weights, means and scatters of classes, and with
    ``band_size > 0`` second moments of layers. A class of a single sample *is* its mean; see
    the user guide on privacy.

    References
    ----------
    .. [1] H. Sahbi and H. Zhan. FFNB: Forgetting-Free Neural Blocks for Deep Continual Visual
       Learning. arXiv:2111.11366, 2021.
    .. [2] N. Halko, P. G. Martinsson and J. A. Tropp. Finding structure with randomness:
       probabilistic algorithms for constructing approximate matrix decompositions. SIAM
       Review 53(2), 2011.
    .. [3] O. Ledoit and M. Wolf. A well-conditioned estimator for large-dimensional covariance
       matrices. Journal of Multivariate Analysis 88(2), 2004.
    .. [4] D. M. Kane and J. Nelson. Sparser Johnson-Lindenstrauss transforms. Journal of the ACM
       61(1), 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ffnb_sklearn import FFNBClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = FFNBClassifier(random_state=0)
    >>> for task in [(0, 1), (2, 3), (4, 5)]:
    ...     now = [label in task for label in y]
    ...     clf = clf.partial_fit(X[now], y[now])
    >>> clf.classes_
    array([0, 1, 2, 3, 4, 5])
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Forget everything, then learn all classes, `classes_per_task` at a time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; a weight of k is k repetitions of the sample, but for mini-batches, which
            are of samples (`max_epochs`, `batch_norm`). From 1e-20 to 1e20, or 0. None weighs
            all by 1.

        Returns
        -------
        self : FFNBClassifier
            The fitted estimator. If an error is raised it is as it was before.
        """
        size = self.classes_per_task
        return self._learn(X, y, sample_weight=sample_weight, reset=True, classes_per_task=size)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn one more task, and keep all that was learnt before.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of new classes, of known ones, or of both.
        y : array-like of shape (n_samples,)
            Their labels, of the kind seen before: numbers, strings or booleans.
        classes : array-like of shape (n_labels,), default=None
            Labels still to come, which get their columns now. They need not be declared, and
            one that has not been seen is never predicted.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; a weight of k is k repetitions of the sample, but for mini-batches, which
            are of samples (`max_epochs`, `batch_norm`). From 1e-20 to 1e20, or 0. None weighs
            all by 1.

        Returns
        -------
        self : FFNBClassifier
            The estimator. If an error is raised it is as it was before.
        """
        return self._learn(X, y, classes=classes, sample_weight=sample_weight)

    def forgetting_bound(self, X_previous):
        """How far the newest task's bands may have moved, and have moved, previous features.

        Before its task a neuron is silent. Proposition 1 of [1]_ bounds what its training can
        make it say on samples of previous tasks, by the norm of its rows and the energy of the
        samples in the null-space that it was confined to.

        Parameters
        ----------
        X_previous : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of previous tasks.

        Returns
        -------
        ForgettingBound
            Attributes `bound` and `drift`, squared Frobenius norms summed over the samples, and
            `layers`, their terms in each layer.

        Raises
        ------
        ValueError
            If fewer than two tasks have brought bands, if the newest band is not known because
            estimators were merged, or with ``batch_norm=True``, which moves old neurons too.

        References
        ----------
        .. [1] H. Sahbi and H. Zhan. FFNB: Forgetting-Free Neural Blocks for Deep Continual
           Visual Learning. arXiv:2111.11366, 2021.
        """
        state = self._learned_state()
        X, model = self._samples(state, X_previous), state.model
        if model.settings.batch_norm:
            raise ValueError(
                "forgetting_bound needs batch_norm=False: the running statistics move old "
                "neurons, of which Proposition 1 says nothing."
            )
        if len(model.null_space_dims) < 2:
            raise ValueError(
                "forgetting_bound needs two tasks that brought trained bands; there are "
                f"{len(model.null_space_dims)}."
            )
        if not model.kept_axes:
            raise ValueError(
                "forgetting_bound needs a newest task; after merge there is none. Learn one more."
            )
        return forgetting_bound(model, X.double())

    def forget(self, classes):
        """Forget classes, as if they had never been seen.

        Exactly so with ``band_size=0``: the moments of a class are its own. Trained neurons
        stay, since other classes are measured through them; their weights still carry a trace
        of the classes they were fitted to.

        Parameters
        ----------
        classes : label or array-like of labels
            Labels in `classes_`, seen or declared. If all are forgotten, the estimator is
            unfitted again.

        Returns
        -------
        self : FFNBClassifier
            The estimator. If an error is raised it is as it was before.

        Raises
        ------
        ValueError
            If a label is not in `classes_`.
        ConcurrentLearningError
            If another thread has let the estimator learn or forget meanwhile.
        """
        state = self._learned_state()
        gone = check_labels(np.atleast_1d(classes), state.classes, "classes")
        unknown = np.setdiff1d(gone, state.classes)
        if len(unknown):
            raise ValueError(
                f"classes must be labels in classes_ to be forgotten; got {unknown.tolist()}, "
                f"known are {state.classes.tolist()}."
            )
        lost = np.flatnonzero(np.isin(state.arrived, gone)).tolist()
        if len(lost) == len(state.arrived):
            kept = None
        else:
            kept = state.without(gone, forget_classes(state.model, lost))
        self._keep(state, kept)
        return self

    def merge(self, other):
        """Take over all that another estimator has learnt from other samples.

        With ``band_size=0`` the result is that of one estimator that has seen all samples,
        exactly so for classes that only one of the two knows, and for all where moments are
        exact (``rank=None``, or no class of more samples than `rank`). With trained bands each
        estimator's classes are given what they would show in the other's neurons, by
        `old_statistics`.

        Parameters
        ----------
        other : FFNBClassifier
            Fitted on samples that this one has not seen, with the same parameters and the
            same `random_state`, so that the shared bands are equal. It is left as it is. Its
            `priors` may differ; those of this estimator hold for the labels of both.

        Returns
        -------
        self : FFNBClassifier
            The estimator. If an error is raised it is as it was before.

        Raises
        ------
        TypeError
            If `other` is not an `FFNBClassifier`.
        ValueError
            If it differs in its features, its kind of labels, a parameter or its seed.
        ConcurrentLearningError
            If another thread has let the estimator learn or forget meanwhile.

        Warns
        -----
        MergedBandsWarning
            If neurons of both for the same classes have come to outnumber all other features.
        """
        mine = self._learned_state()
        if not isinstance(other, BlockClassifier):
            raise TypeError(f"other must be a fitted FFNBClassifier; got {type(other).__name__}.")
        theirs = other._learned_state()
        check_mergeable(mine, theirs)
        positions, arrived = label_positions(theirs.arrived, mine.arrived)
        self._check_arrived(arrived)
        device = resolve_device(self.device)
        model = merge_models(mine.model, theirs.model, positions.tolist(), device=device)
        self._keep(mine, mine.merged(theirs, model, arrived))
        return self
