"""How bands of neurons are made and trained."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from ..core.bands.activations import ACTIVATIONS

__all__ = ["Bands"]


@dataclass(kw_only=True, eq=False, repr=False)
class Bands(BaseEstimator):
    """How the trained bands of an `FFNBClassifier` are made and fine-tuned.

    An instance is the value of the parameter `bands`. Names such as ``bands__max_epochs`` set the
    options in `set_params` of the classifier and in grids. They apply to the bands of later tasks.

    Parameters
    ----------
    activation : {"relu", "tanh", "sigmoid"}, default="relu"
        Activation of the trained neurons.
    init : {"multi", "mono", "random"}, default="multi"
        Initial neurons: "multi" regresses their codes on the moments of all tasks [1]_ (Eq. 7),
        "mono" on those of the current task (Eq. 6), and "random" draws them.
    gamma : float, default=10.0
        Ridge of that regression, relative to the mean energy of a feature, and at least 1e-4. With
        smaller ridges, streams depend more on the order of the tasks and lose accuracy; larger
        ridges change little (``benchmarks.settings.bands``).
    null_space : bool, default=True
        Whether new neurons are confined to the null-space of previous tasks.
    old_statistics : {"gaussian", "zero"}, default="gaussian"
        Moments of old classes, whose samples are gone, in new neurons: computed for Gaussians with
        the stored moments, or for neurons that do not respond to old classes, as in [1]_.
    batch_norm : bool, default=False
        Whether trained neurons have batch normalisation before their activation. This is an
        ablation: the running statistics move with every task, and so do old features.
    max_epochs : int, default=0
        Number of epochs of the end-to-end fine-tuning of each task's bands [1]_ (Algorithm 2). With
        0, bands keep their initial weights.
    learning_rate : float, default=0.003
        Initial rate of the descent, relative to the mean square length of a layer's inputs.
    momentum : float, default=0.9
        Momentum of the descent, in [0, 1).
    weight_decay : float, default=0.0
        Weight decay on the coordinates of new rows, relative in the same way as the rate.
    batch_size : int, default=50
        Number of samples in a mini-batch, for the descent and for `batch_norm`.
    left_out : bool, default=True
        Whether the response of each sample of a task is computed with rows that were fitted without
        this sample, or with the final rows. Trained bands alone need False for classes of a single
        sample.
    adaptive_rate : bool, default=True
        Whether the rate falls by 1 % after an epoch in which the loss changed by more than in the
        previous epoch, and rises by as much after any other epoch [1]_, or is fixed.

    See Also
    --------
    FFNBClassifier.as_published : The bands of the paper.

    References
    ----------
    .. [1] H. Sahbi and H. Zhan. FFNB: Forgetting-Free Neural Blocks for Deep Continual Visual
       Learning. arXiv:2111.11366, 2021.

    Examples
    --------
    >>> from ffnb_sklearn import Bands, FFNBClassifier
    >>> clf = FFNBClassifier(bands=Bands(max_epochs=20, adaptive_rate=False))
    >>> clf.set_params(bands__momentum=0.5).bands
    Bands(adaptive_rate=False, max_epochs=20, momentum=0.5)
    """

    activation: str = "relu"
    init: str = "multi"
    gamma: float = 10.0
    null_space: bool = True
    old_statistics: str = "gaussian"
    batch_norm: bool = False
    max_epochs: int = 0
    learning_rate: float = 0.003
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch_size: int = 50
    left_out: bool = True
    adaptive_rate: bool = True

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        "activation": [StrOptions(set(ACTIVATIONS))],
        "init": [StrOptions({"multi", "mono", "random"})],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "null_space": ["boolean"],
        "old_statistics": [StrOptions({"gaussian", "zero"})],
        "batch_norm": ["boolean"],
        "max_epochs": [Interval(Integral, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "left_out": ["boolean"],
        "adaptive_rate": ["boolean"],
    }
