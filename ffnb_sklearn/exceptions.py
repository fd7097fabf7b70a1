"""The errors and warnings of the package."""

from ._inputs.columns import ColumnUnitsWarning
from ._inputs.locks import ConcurrentLearningError
from .backbones._network import RandomFeaturesWarning
from .backbones._pretraining import NonFiniteLossError
from .backbones._readout import NonFiniteFeaturesError
from .core.bands.null_space import EmptyNullSpaceWarning
from .core.linalg import IllConditionedWarning, NotPositiveDefiniteError
from .pipeline._freezing import FrozenTransformerWarning
from .saving._container import ModelFileError

__all__ = [
    "ColumnUnitsWarning",
    "ConcurrentLearningError",
    "EmptyNullSpaceWarning",
    "FrozenTransformerWarning",
    "IllConditionedWarning",
    "ModelFileError",
    "NonFiniteFeaturesError",
    "NonFiniteLossError",
    "NotPositiveDefiniteError",
    "RandomFeaturesWarning",
]
