"""Options of the training of bands: what the package adds to the paper there."""

from numbers import Integral, Real
from typing import ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from ._documentation import DocumentedMixin

__all__ = ["BandTraining"]


class BandTraining(DocumentedMixin, BaseEstimator):
    """Options of the training of bands, one for each improvement over the paper.

    The value of the parameter `training` of `FFNBClassifier`, which reaches the options by names
    such as ``training__left_out``. Only `left_out` has an effect with ``max_epochs=0``.

    Parameters
    ----------
    left_out : bool, default=True
        Whether the closed form measures each sample of a task by its response to rows that were
        fitted without it, or to the rows themselves. Rows drawn at random are fitted to no sample.
    n_folds : int, default=4
        Folds of a task's samples in the descent, and copies of the rows. Each copy descends on all
        folds but one, the band is the mean of the copies, and the samples of a fold are measured by
        the copy that has not seen them. With 1, all samples train the only copy and are measured by
        it, as in [1]_.
    draws : bool, default=True
        Whether the loss sees draws from the Gaussians of old classes, beside the samples of the
        task; only with ``old_statistics="gaussian"``.
    standard_errors : float or None, default=2.0
        Standard errors by which the loss after an epoch has to be below the loss at the start. The
        best of these epochs counts, or the start if there is none. With None the last epoch counts,
        as in [1]_.
    patience : int or None, default=10
        Epochs without a lower loss that end the descent. With None, as in [1]_, it ends after
        `max_epochs`, or with a loss of zero.
    adaptive_rate : bool, default=True
        Whether the rate follows the rule of [1]_, or is fixed as in its experiments on CIFAR-100.

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
