"""Options for the training of bands, which the package adds to the paper."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from ._documentation import DocumentedMixin

__all__ = ["BandTraining"]


class BandTraining(DocumentedMixin, BaseEstimator):
    """Options for the training of bands, one for each improvement over the paper.

    An instance is the value of the parameter `training` of `FFNBClassifier`, whose `set_params`
    sets the options by names such as ``training__left_out``. With ``max_epochs=0`` only `left_out`
    has an effect.

    Parameters
    ----------
    left_out : bool, default=True
        Whether the closed form computes the response of each sample of a task with rows that were
        fitted without this sample, or with the final rows. Rows drawn at random are not fitted to
        any sample. Trained bands alone need False for classes of a single sample, which have no
        response without it.
    n_folds : int, default=4
        Number of folds of a task's samples in the descent, and of copies of the rows. Each copy is
        trained on all folds but one, the band is the mean of the copies, and the responses of the
        samples of a fold are computed with the copy that was not trained on them. With 1, the only
        copy is trained on all samples and computes their responses, as in [1]_.
    draws : bool, default=True
        Whether the loss includes draws from the Gaussians of old classes, in addition to the
        samples of the task. Used only with ``old_statistics="gaussian"``.
    standard_errors : float or None, default=2.0
        Number of standard errors by which the loss after an epoch has to be below the loss at the
        start. The best of these epochs is kept, or the start if there is none. With None, the last
        epoch is kept, as in [1]_.
    patience : int or None, default=10
        Number of epochs without a lower loss after which the descent ends. With None, as in [1]_,
        the descent ends after `max_epochs` or at a loss of zero.
    adaptive_rate : bool, default=True
        Whether the rate follows the rule of [1]_, or is fixed as in the experiments of [1]_ on
        CIFAR-100.

    See Also
    --------
    FFNBClassifier.as_published : The paper's model, without these improvements.

    References
    ----------
    .. [1] H. Sahbi and H. Zhan. FFNB: Forgetting-Free Neural Blocks for Deep Continual Visual
       Learning. arXiv:2111.11366, 2021.

    Examples
    --------
    >>> from ffnb_sklearn import BandTraining, FFNBClassifier
    >>> clf = FFNBClassifier(max_epochs=20, training=BandTraining(adaptive_rate=False))
    >>> clf = clf.set_params(training__n_folds=1)
    >>> clf.get_params()["training__n_folds"]
    1
    """

    _parameter_constraints: ClassVar[dict] = {
        "left_out": ["boolean"],
        "n_folds": [Interval(Integral, 1, None, closed="left")],
        "draws": ["boolean"],
        "standard_errors": [Interval(Real, 0, None, closed="left"), None],
        "patience": [Interval(Integral, 1, None, closed="left"), None],
        "adaptive_rate": ["boolean"],
    }

    def __init__(
        self,
        *,
        left_out=True,
        n_folds=4,
        draws=True,
        standard_errors=2.0,
        patience=10,
        adaptive_rate=True,
    ):
        self.left_out = left_out
        self.n_folds = n_folds
        self.draws = draws
        self.standard_errors = standard_errors
        self.patience = patience
        self.adaptive_rate = adaptive_rate
