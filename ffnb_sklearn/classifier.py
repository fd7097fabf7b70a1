"""The main estimator: scikit-learn's interface to the models of `ffnb_sklearn.core`."""

import numpy as np

from ._block_classifier import BlockClassifier
from ._targets import check_labels, label_positions
from ._validation import check_mergeable
from .core.bound import forgetting_bound
from .core.device import resolve_device
from .core.revision import forget_classes, merge_models

__all__ = ["FFNBClassifier"]


class FFNBClassifier(BlockClassifier):
    """Class-incremental classifier made of forgetting-free neural blocks (FFNB).

    Each call of `partial_fit` may bring labels that have not been seen before. The new labels form
    a task: a band of neurons is trained for them in the null-space of the previous tasks. The
    moments of each class are stored, and the samples are discarded. The classifier is computed from
    the moments at the first prediction; by default it compares the distances of a sample to the
    Gaussians of the classes.

    Parameters
    ----------
    p : int, float or sequence of these, default=0.95
        Principal axes that are kept for previous tasks and closed to new neurons [1]_ (Eq. 1). An
        int is their number, and a float in (0, 1) is the share of the energy that they hold. A
        sequence has one entry per layer.
    band_size : int, default=1
        Trained neurons per new class and layer. With 0, no neuron is trained, and the model
        depends neither on the order of the tasks nor on how the classes are divided into tasks.
    n_layers : int, default=1
        Number of layers of trained bands. The classifier uses the last layer.
    shared_band_size : int or "auto", default="auto"
        Number of random ReLU neurons that are drawn once and never trained. With few inputs, up to
        half of them are cosines. With ``skip_connection=True`` each ReLU is the sum of two mirrored
        ReLUs, because the inputs already carry the linear part. "auto" is 2000 for inputs of any
        width, or 0 for sparse samples of more than 2000 features, see Notes.
    skip_connection : bool, default=True
        Whether the classifier also receives the inputs, or their projection.
    scale : "auto" or bool, default="auto"
        Repair of the columns of X, decided at the first task. "auto" subtracts the mean of columns
        that lie more than ten spreads from zero, and divides all columns by their spread if at
        least a tenth of them have less than a hundredth of the largest spread. Most tables need
        neither and stay exactly as they are. True standardises all columns by the first task, and
        False none. See Notes.
    activation : {"relu", "tanh", "sigmoid"}, default="relu"
        Activation of the trained bands.
    init : {"multi", "mono", "random"}, default="multi"
        Initialisation of the trained neurons. "multi" regresses their codes on the moments of all
        tasks [1]_ (Eq. 7), "mono" on the moments of the current task (Eq. 6), and "random" draws
        them.
    gamma : float, default=0.1
        Ridge of that regression, relative to the mean energy of a feature. Values below 1e-4 are
        raised to 1e-4. See `units`.
    null_space : bool, default=True
        Whether new neurons are confined to the null-space of previous tasks.
    covariance : {"class", "identity"}, default="class"
        Whether each class has its own covariance ("heteroscedasticity"), or all classes have the
        identity times the mean variance. It has no effect with ``classifier="ova"``, and with
        "identity" the probabilities are not calibrated.
    shrinkage : float or "auto", default="auto"
        Share in [0, 1] of the pooled covariance in the covariance of a class. 0 gives the class
        covariances of [1]_, and 1 gives linear discriminant analysis. "auto" is the intensity of
        Ledoit and Wolf [3]_ within limits, see Notes.
    epsilon : float or "auto", default="auto"
        Positive ridge, relative to the mean variance within classes. "auto" is the same intensity,
        or 1 if the inputs count almost alone, raised for few samples and for little known
        covariances. It is 0.3 with ``classifier="ova"`` or ``shrinkage=0``. See `units`.
    rank : int, "auto" or None, default="auto"
        Number of principal axes stored for the scatter of each class. The variance outside of the
        axes is stored per feature. None stores the scatter exactly. "auto" stores the axes that
        hold 95 % of the variance of a class, at least 64 and at most 128. The axes of a class with
        many more samples than `rank` are approximate, see Notes.
    max_state_mb : float or None, default=None
        Maximum size in memory of the moments of all classes, in megabytes. To stay below it, the
        classes with the most axes keep fewer axes, but at least one. None sets no limit.
    classifier : {"gaussian", "ovo", "ova"}, default="gaussian"
        Regularised Mahalanobis distances to the classes, the aggregated discriminants of all pairs
        of classes as in [1]_, or one ridge regression per class. With C classes, a prediction
        computes C distances ("gaussian") or C (C - 1) / 2 hyperplanes ("ovo").
    chunk_size : int, default=4096
        Number of samples whose features are in memory at a time. With ``band_size=0`` no other
        array of the size of X is created, so X may be a memory map of float64 or float32 numbers
        that is larger than memory.
    old_statistics : {"gaussian", "zero"}, default="gaussian"
        Moments of old classes, whose samples are gone, in new neurons: computed for Gaussians with
        the stored moments, or for neurons that do not respond to old classes, as in [1]_.
    units : {"relative", "absolute"}, default="relative"
        Unit of `gamma`, `epsilon`, `learning_rate` and `weight_decay`. With "relative" they are
        relative to the features, so the results do not depend on the unit of the features. With
        "absolute" the unit is 1, as in [1]_; epsilon is then the ridge of a pair of classes, and
        the ridge of a single covariance is half of it. The outputs of bands have the unit of the
        inputs with "relative", and no unit with "absolute".
    half_bias : bool, default=True
        Whether the thresholds of pairs lie midway between the means, or have the bias printed in
        [1]_, which lacks the factor 1/2. Used only with ``classifier="ovo"`` and in fine-tuning.
    training : BandTraining or None, default=None
        Improvements over the training of bands in [1]_. None is ``BandTraining()``, which enables
        all of them.
    max_epochs : int, default=0
        Maximum number of epochs of the end-to-end fine-tuning of each task's bands [1]_
        (Algorithm 2). With 0, bands keep their initial weights. The following holds unless
        `training` changes it: the loss of each sample is computed with bands that were not fitted
        to it; fine-tuning ends after 10 epochs without a lower loss; the best epoch is kept if it
        is better than the start by more than two standard errors; and with
        ``old_statistics="gaussian"`` the loss includes draws from the Gaussians of old classes.
    learning_rate : float, default=0.003
        Initial rate of the gradient descent, relative to the mean square length of a layer's inputs
        (see `units`). The rate decreases by 1 % after an epoch in which the loss changed by more
        than in the previous epoch, and increases by as much after any other epoch.
    momentum : float, default=0.9
        Momentum of the descent, in [0, 1).
    weight_decay : float, default=0.0
        Weight decay on the coordinates of new rows, relative in the same way as the rate.
    batch_size : int, default=50
        Number of samples in a mini-batch, for the descent and for `batch_norm`.
    batch_norm : bool, default=False
        Whether trained neurons have batch normalisation before their activation, with running
        statistics. This is an ablation: the statistics move with every task, so old features
        change.
    classes_per_task : int or None, default=None
        Only for `fit`: number of classes per task. The classes are sorted and learned task by task.
        None makes them one task.
    device : str, default="auto"
        Where to compute: "auto", "cpu", "cuda" or "cuda:<index>". The device is resolved at each
        call and is not part of the fitted state. "mps" has no float64 arithmetic and is refused.
    random_state : int, RandomState instance or None, default=None
        Seed of the shared band, of ``init="random"``, of fine-tuning and of the projection of
        sparse samples. Two models can be merged only if their seeds are equal.
    verbose : bool or int, default=False
        Whether to print a line for every task, and with 2 or more also a line for every epoch.
    priors : {"uniform", "empirical"} or mapping of label to float, default="uniform"
        Shares of the classes among future samples: equal ("uniform"), proportional to the sample
        weights learned ("empirical"), or positive weights of any sum. A mapping must contain every
        label learned, and may contain labels that have not been seen yet. See Notes.
    novelty : bool, default=False
        Whether to prepare `novelty_threshold`: each task is also learned without a part of its
        samples, up to ten times, and quantiles of the scores of these samples are kept. Each time
        takes about as long as learning and a first prediction.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted: the columns of `predict_proba` and
        `decision_function`. Columns move when a new label sorts before known labels.
    n_features_in_ : int
        Number of features seen at the first task.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features. Defined only if X had string column names.
    offset_ : ndarray of shape (`n_features_in_`,) or None
        Subtracted from the columns of X; None if no column is centred.
    scale_ : ndarray of shape (`n_features_in_`,) or None
        Divisors of the columns of X, after the subtraction; None if no column is divided.
    n_tasks_ : int
        Number of tasks that brought new labels.
    task_classes_ : list of ndarray
        The new labels of each task.
    n_parameters_ : int
        Number of weights in the bands and in the classifier; an upper bound if all classes share
        the covariance that was chosen.
    null_space_dims_ : list of tuple of int
        For each task that brought bands, the number of residual axes in each layer.
    n_iter_ : int
        Number of epochs run for the last task.
    loss_curve_ : list of float
        Loss of the last task after each of these epochs.
    shrinkage_ : float
        Shrinkage with which the classifier is solved (with rare Gaussian classes, of the largest).
        Reading it solves the classifier, as a prediction does; displaying the estimator does not.
    epsilon_ : float
        Relative ridge with which the classifier is solved. Reading it solves the classifier too.

    See Also
    --------
    ContinualPipeline : A pipeline whose last step learns task by task.

    Notes
    -----
    The parameters are those of the features the classifier receives (`shared_band_size`,
    `skip_connection`, `scale`), of the classifier (`classifier`, `rank`, `shrinkage`, `epsilon`,
    `priors`, `covariance`, `units`, `half_bias`), of trained bands (`p`, `band_size`, `n_layers`,
    `activation`, `init`, `gamma`, `null_space`, `old_statistics`, `batch_norm`), of their
    fine-tuning (`max_epochs`, `learning_rate`, `momentum`, `weight_decay`, `batch_size`,
    `training`), and of a run (`classes_per_task`, `chunk_size`, `max_state_mb`, `device`,
    `random_state`, `verbose`, `novelty`). By default the trained bands add little.

    Random neurons see the directions of samples from the origin, and all columns in one unit, which
    is why `scale` repairs columns that are far off. The spread of a column is its standard
    deviation in the first task, or a tenth of its range if that is larger. Constant columns are
    never divided. A repaired model depends on which task comes first; all other models with
    ``band_size=0`` do not. Models can be merged only if their repairs are equal. The columns of
    sparse samples that stay sparse or are projected are divided and not centred.

    `set_params` may change parameters after learning. Those of the classifier take effect at the
    next prediction, except for `rank`. Parameters that shape the state are refused at the next
    call: `n_layers`, `shared_band_size`, `skip_connection`, `scale`, `random_state`, and a
    `band_size` that changes between 0 and a positive number. All others apply to later tasks.

    Every call that learns is a transaction: if it raises, the estimator predicts as before. A
    prediction in another thread uses the state before the call or the state after it. If two
    threads make the estimator learn at the same time, the call that ends second raises
    `ConcurrentLearningError` and changes nothing.

    With ``shrinkage="auto"`` the shrinkage is the sampling error of the class covariances divided
    by their squared distance from the pooled covariance, both measured in the metric of the pooled
    covariance [3]_. With many samples and different covariances, each class keeps its own
    covariance; few samples or equal covariances lead towards linear discriminant analysis.
    Unless ``shrinkage=0``, the weight of the inputs relative to the shared band follows from the
    class separation of both. If shrinkage or ridge is "auto" and this weight is at least 2, the
    left-out cross-entropy of the pooled discriminant decides whether the inputs count almost alone,
    like the band, or in between. If almost alone, the shrinkage is at least 0.9. If like the band,
    it is at most 0.5 for the Gaussian head with a shared band and classes that hardly overlap, and
    0.9 in all other cases.
    If both are "auto", the Gaussian head compares the densities of the inputs if the classes seem
    Gaussian in them and the left-out cross-entropy is clearly lower.

    The first prediction after a call that learns solves the classifier, and so takes longer than
    later predictions. If the ridge is too small, this prediction issues an `IllConditionedWarning`
    or raises a `NotPositiveDefiniteError`. Pickles and saved files include the solved classifier,
    unless parameters have changed since the last call that learned.

    A randomised subspace iteration [2]_ computes the axes of a class if there are more than three
    times as many features as `rank`, and more than about 1.25 times as many samples. Its random
    directions have a fixed seed of their own. Strong axes are exact; weak axes, which differ little
    from the next ones, are mixed with these.

    With ``classifier="gaussian"``, `predict_proba` is the softmax p of the scores. After N samples
    of C classes, all heads return (1 - d) p + d / C with d = 1 / (N + 2). With "ovo", the score of
    a class is the sum of its pair outputs, each in (-1, 1), so it lies between 1 - C and C - 1.

    With ``classifier="gaussian"`` and "ovo", `priors` multiply the probabilities p, which are then
    divided by their sum; a prior is a share of the classes seen. `decision_function` and `predict`
    agree with the probabilities: "gaussian" adds the logarithm of C times the prior to a score, and
    "ovo" divides the expected losses of a class by C times its prior, so scores may fall below
    1 - C. The regression of "ova" depends on the shares of the classes, and uses the priors as
    these shares: with "empirical" it is the plain ridge regression of the indicators.

    X may be sparse in every method. If the first samples are sparse and have more than 2000
    features, the inputs of a model without neurons (``band_size=0`` and a `shared_band_size` of 0
    or "auto") stay sparse, and `rank` "auto" is 8. More than 65536 features are projected onto
    65536 columns by a sparse random projection [4]_. In a model with neurons, the projection has
    2000 columns. It depends only on `random_state` and the number of features, and later samples
    may be sparse or dense. All other sparse samples give the same results as dense samples.

    The stored data are the weights, means and scatters of the classes, and the weights of the
    bands. The mean of a class with a single sample *is* that sample; see the user guide on privacy.

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

    def fit(self, X, y, sample_weight=None):
        """Discard the fitted state, then learn all classes, `classes_per_task` at a time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels of the samples: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, each 0 or between 1e-20 and 1e20. A weight of k is equivalent to k
            repetitions of the sample, except in mini-batches and folds, which count samples
            (`max_epochs`, `batch_norm`, `novelty`). A class whose samples all weigh 0 counts as
            declared, see `partial_fit`. None gives all samples the weight 1.

        Returns
        -------
        self : FFNBClassifier
            The fitted estimator. It is unchanged if an error is raised.

        Raises
        ------
        ValueError
            If a parameter, a sample, a label or a weight is invalid.
        ConcurrentLearningError
            If another thread has made the estimator learn meanwhile.
        """
        size = self.classes_per_task
        return self._learn(X, y, sample_weight=sample_weight, reset=True, classes_per_task=size)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn one more task, and keep everything that was learned before.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of new classes, of known classes, or of both.
        y : array-like of shape (n_samples,)
            Labels of the samples, of the kind seen before: numbers, strings or booleans.
        classes : array-like of shape (n_labels,), default=None
            Labels still to come, which get their columns now. Declaring labels is optional, and a
            label that has not been seen is never predicted.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, as in `fit`.

        Returns
        -------
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.

        Raises
        ------
        ValueError
            If a parameter, a sample, a label or a weight is invalid.
        ConcurrentLearningError
            If another thread has made the estimator learn meanwhile.
        """
        return self._learn(X, y, classes=classes, sample_weight=sample_weight)

    def forgetting_bound(self, X_previous):
        """Bound and measure how far the newest task's bands have moved previous features.

        Before its task the output of a neuron is constant. Proposition 1 of [1]_ bounds the change
        of its output on samples of previous tasks by the norm of its rows and the energy of the
        samples in the null-space that it was confined to.

        Parameters
        ----------
        X_previous : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of previous tasks.

        Returns
        -------
        ForgettingBound
            The attributes `bound` and `drift` are squared Frobenius norms summed over the samples,
            and `layers` has their terms in each layer.

        Raises
        ------
        ValueError
            If fewer than two tasks have brought bands, if no task is the newest because estimators
            were merged or classes forgotten since, or with ``batch_norm=True``, which moves old
            neurons too.

        References
        ----------
        .. [1] H. Sahbi and H. Zhan. FFNB: Forgetting-Free Neural Blocks for Deep Continual
           Visual Learning. arXiv:2111.11366, 2021.
        """
        state = self._present_state()
        X, model = self._samples(state, X_previous), state.model
        if any(band.batch_norm is not None for band in model.features.bands):
            raise ValueError(
                "forgetting_bound needs batch_norm=False: the running statistics move old "
                "neurons, which Proposition 1 does not cover."
            )
        if len(model.null_space_dims) < 2:
            raise ValueError(
                "forgetting_bound needs two tasks that brought trained bands; there are "
                f"{len(model.null_space_dims)}."
            )
        if not model.n_newest:
            raise ValueError(
                "forgetting_bound needs a newest task; after merge and forget there is none. "
                "Learn one more."
            )
        return forgetting_bound(model, X.double())

    def forget(self, classes):
        """Forget classes, as if they had never been seen.

        With ``band_size=0`` forgetting is exact, because each class has moments of its own. Trained
        neurons stay, because the moments of other classes include these neurons; their weights
        still carry a trace of the classes they were fitted to.

        Parameters
        ----------
        classes : label or array-like of labels
            Labels in `classes_`, seen or declared. If all labels seen are forgotten, the estimator
            is unfitted again.

        Returns
        -------
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.

        Raises
        ------
        ValueError
            If a label is not in `classes_`.
        ConcurrentLearningError
            If another thread has made the estimator learn or forget meanwhile.
        """
        state = self._learned_state()
        self._present_model(state)
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
        """Merge in everything that another estimator has learned from other samples.

        With ``band_size=0`` the result is that of one estimator that has seen all samples. This is
        exact for classes that only one of the two estimators knows, and for all classes if the
        moments are exact (``rank=None``, or no class with more samples than `rank`). With trained
        bands, the moments of each estimator's classes in the other's neurons are computed by
        `old_statistics`.

        Parameters
        ----------
        other : FFNBClassifier
            Estimator fitted on samples that this estimator has not seen, with the same parameters
            and the same `random_state`, so that the shared bands are equal, and with the same
            repair of columns (`offset_`, `scale_`). It is not changed. Parameters of the solution,
            such as `shrinkage` and `priors`, may differ; predictions use those of this estimator.

        Returns
        -------
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.

        Raises
        ------
        TypeError
            If `other` is not an `FFNBClassifier`.
        ValueError
            If `other` differs in its features, its kind of labels, a parameter, its repair of
            columns or its shared band.
        ConcurrentLearningError
            If another thread has made the estimator learn or forget meanwhile.

        Warns
        -----
        MergedBandsWarning
            If this merge lets duplicate neurons for the same classes outnumber the inputs and the
            shared neurons.
        """
        mine = self._learned_state()
        if not isinstance(other, FFNBClassifier):
            raise TypeError(f"other must be a fitted FFNBClassifier; got {type(other).__name__}.")
        theirs = other._learned_state()
        self._present_model(mine)
        check_mergeable(mine, theirs)
        positions, arrived = label_positions(theirs.arrived, mine.arrived)
        self._check_arrived(arrived)
        device = resolve_device(self.device)
        model = merge_models(mine.model, theirs.model, positions.tolist(), device=device)
        self._keep(mine, mine.merged(theirs, model, arrived))
        return self
