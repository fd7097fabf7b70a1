"""Joint training: the same network with all classes at hand, the upper bound of the paper."""

from sklearn.base import _fit_context

from .._block_classifier import BlockClassifier

__all__ = ["JointClassifier"]


class JointClassifier(BlockClassifier):
    """The network of `FFNBClassifier`, learnt from all classes at once.

    What the paper [1]_ calls the multi-task upper bound: one task with every class in it, so that
    bands are trained in the whole ambient space and no class is ever old. It does not learn
    incrementally: there is no `partial_fit`. To train a backbone along with it, put a
    `TorchFeatureExtractor` with ``epochs > 0`` before it in a pipeline.

    Parameters
    ----------
    band_size : int, default=1
        Trained neurons per class and layer.
    n_layers : int, default=1
        Layers of trained bands. The classifier sees the last one.
    shared_band_size : int or "auto", default="auto"
        Random neurons beside the bands, as in `FFNBClassifier`.
    skip_connection : bool, default=True
        Whether the classifier also sees the inputs.
    activation : {"relu", "tanh", "sigmoid"}, default="relu"
        Activation of the trained bands.
    init : {"multi", "mono", "random"}, default="multi"
        How trained neurons are set. In one task "multi" and "mono" are the same.
    gamma : float, default=0.1
        Ridge of that regression, relative to the mean energy of a feature; less than 1e-4 counts
        as 1e-4.
    covariance : {"class", "identity"}, default="class"
        Whether classes have covariances of their own.
    shrinkage : float or "auto", default="auto"
        Share in [0, 1] of the pooled covariance in that of a class.
    epsilon : float or "auto", default="auto"
        Positive ridge of the discriminants, relative to the mean variance within classes.
    rank : int or None, default=64
        Principal axes kept of each class's scatter; None keeps it exactly.
    classifier : {"ovo", "ova"}, default="ovo"
        Aggregated discriminants of all pairs, or one ridge regression per class.
    shortlist : int or None, default=None
        Number of classes whose pairs are evaluated for a sample; None evaluates all pairs.
    chunk_size : int, default=4096
        Number of samples whose features are held at a time.
    max_epochs : int, default=0
        Most epochs of fine-tuning by gradients; 0 leaves the bands in closed form.
    learning_rate : float, default=0.003
        First rate of the descent, relative as in `FFNBClassifier`.
    momentum : float, default=0.9
        Momentum of the descent, in [0, 1).
    weight_decay : float, default=0.0
        Weight decay on the bands.
    batch_size : int, default=50
        Samples of a mini-batch.
    batch_norm : bool, default=False
        Batch normalisation of trained neurons before their activation.
    device : str, default="auto"
        Where to compute, see `FFNBClassifier`.
    random_state : int, RandomState instance or None, default=None
        Seed of the shared band, of ``init="random"`` and of the mini-batches.
    verbose : bool or int, default=False
        Whether to print a line when the task is learnt.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, where X had string column names.
    n_tasks_ : int
        1.
    task_classes_ : list of ndarray
        The labels of the one task.
    n_parameters_ : int
        Number of weights in the bands and in the classifier.
    null_space_dims_ : list of tuple of int
        The axes of each layer, all of them open.
    n_iter_ : int
        Epochs run.
    loss_curve_ : list of float
        Loss after each of them.
    shrinkage_ : float
        The shrinkage that the discriminants are solved with.
    epsilon_ : float
        Their relative ridge.

    See Also
    --------
    FFNBClassifier : Learns class after class.
    NaiveIncrementalClassifier : The paper's other baseline.

    References
    ----------
    .. [1] H. Sahbi and H. Zhan. FFNB: Forgetting-Free Neural Blocks for Deep Continual Visual
       Learning. arXiv:2111.11366, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ffnb_sklearn import JointClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> JointClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    # One task has no past: nothing is kept from its neurons, and no class is old.
    p, null_space, old_statistics = 0, False, "zero"

    def __init__(
        self,
        *,
        band_size=1,
        n_layers=1,
        shared_band_size="auto",
        skip_connection=True,
        activation="relu",
        init="multi",
        gamma=0.1,
        covariance="class",
        shrinkage="auto",
        epsilon="auto",
        rank=64,
        classifier="ovo",
        shortlist=None,
        chunk_size=4096,
        max_epochs=0,
        learning_rate=0.003,
        momentum=0.9,
        weight_decay=0.0,
        batch_size=50,
        batch_norm=False,
        device="auto",
        random_state=None,
        verbose=False,
    ):
        self.band_size = band_size
        self.n_layers = n_layers
        self.shared_band_size = shared_band_size
        self.skip_connection = skip_connection
        self.activation = activation
        self.init = init
        self.gamma = gamma
        self.covariance = covariance
        self.shrinkage = shrinkage
        self.epsilon = epsilon
        self.rank = rank
        self.classifier = classifier
        self.shortlist = shortlist
        self.chunk_size = chunk_size
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.batch_norm = batch_norm
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Learn all classes at once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; a weight of k is k repetitions of the sample, but for mini-batches, which
            are of samples (`max_epochs`, `batch_norm`). None weighs all by 1.

        Returns
        -------
        self : JointClassifier
            The fitted estimator. If an error is raised it is as it was before.
        """
        return self._learn(X, y, sample_weight=sample_weight, reset=True)
