"""Rows of features for the paper's tables: a graph-convolutional backbone, or fixed descriptors."""

from dataclasses import replace
from functools import cache

import numpy as np
from _data import Split, known_problems, read_arrays, test_masks
from _paper_settings import BACKBONES, PRETRAINING, PRETRAINING_PEOPLE, UnavailableError
from sklearn.model_selection import StratifiedKFold

from ffnb_sklearn.backbones import SkeletonGCN, TorchFeatureExtractor, skeleton_nodes

FEATURES = (*BACKBONES, "chunk-means")

# SBU's release normalised each axis by itself; these numbers undo it.
_SBU_ORIGIN, _SBU_SCALE = np.array([1280.0, 960.0, 0.0]), np.array([-2560.0, -1920.0, 1280.0])

# Torso and wrist: the joints that sequences are centred on.
ROOTS = {"sbu": 2, "fpha": 0}
N_CHUNKS = 8


class PooledGCN(SkeletonGCN):
    """A graph convolution whose features are means over all joints.

    Parameters
    ----------
    n_nodes, n_node_features : int
        Joints, and numbers of each.
    pooled : bool, default=False
        Whether to take the means; if not, this is a `SkeletonGCN`.
    **parameters
        Of `SkeletonGCN`.
    """

    def __init__(self, n_nodes, n_node_features, *, pooled=False, **parameters):
        super().__init__(n_nodes, n_node_features, **parameters)
        self.n_pooled = n_nodes if pooled else 1
        self.n_features //= self.n_pooled

    def forward(self, nodes):
        """Compute the features of skeletons."""
        return super().forward(nodes).unflatten(1, (self.n_pooled, -1)).mean(dim=1)


def load_splits(
    data_set,
    folder,
    *,
    features,
    pretraining,
    seed,
    device="cpu",
    only_printed=False,
    hold_out=False,
):
    """Load a data set as rows of features.

    Parameters
    ----------
    data_set : DataSet
        Which one.
    folder : Path
        Folder of the data files.
    features : str
        One of `FEATURES`. CIFAR-100 has features of its own, pretrained on base classes.
    pretraining : Pretraining
        Of the backbone.
    seed : int
        Seed of the backbone.
    device : str, default="cpu"
        Where the backbone runs.
    only_printed : bool, default=False
        Whether to leave out splits without printed figures.
    hold_out : bool, default=False
        Whether to hold out training rows of the printed split in turn, in place of test rows: those
        of each other fold, or stratified quarters where there are no folds. Skeletons alone.

    Returns
    -------
    splits : list of Split
        One, or one per fold.

    Raises
    ------
    UnavailableError
        If fixed features are to be pretrained.
    """
    if features == "chunk-means" or data_set.name == "cifar":
        if pretraining.protocol != "none":
            raise UnavailableError("these features cannot be pretrained")
        splits = _fixed_splits(folder, data_set.name)
        return [split for split in splits if split.name == data_set.split or not only_printed]
    skeletons = _read_skeletons(folder / f"{data_set.name}.npz")
    masks = {name: (~test, test) for name, test in skeletons["masks"].items()}
    if hold_out:
        masks = _hold_outs(skeletons, data_set.split)
    elif only_printed:
        masks = {data_set.split: masks[data_set.split]}
    return [
        _extract(data_set, skeletons, name, *rows, features, pretraining, seed, device)
        for name, rows in masks.items()
    ]


def thin(split, n_train, n_test):
    """Keep the first training and test samples of each class, at most so many.

    Parameters
    ----------
    split : Split
        Rows.
    n_train, n_test : int
        Samples of a class.

    Returns
    -------
    split : Split
        Fewer rows.
    """
    train, test = _firsts(split.y, n_train), _firsts(split.y_test, n_test)
    return replace(
        split,
        X=split.X[train],
        y=split.y[train],
        X_test=split.X_test[test],
        y_test=split.y_test[test],
    )


def on_one_scale(joints, name):
    """Return joints with one unit on all axes, in float64.

    Parameters
    ----------
    joints : ndarray of shape (..., 3)
        Joints as the file holds them.
    name : {"sbu", "fpha"}
        The set.
    """
    joints = joints.astype(np.float64)
    return _SBU_ORIGIN + joints * _SBU_SCALE if name == "sbu" else joints


@cache
def _fixed_splits(folder, name):
    """Splits that depend on no seed."""
    return known_problems(folder)[name].splits()


@cache
def _read_skeletons(path):
    """Nodes of all sequences, their labels and people, and the test mask of each split."""
    arrays = read_arrays(path)
    joints = on_one_scale(arrays["joints"], path.stem)
    sequences = np.split(joints, arrays["offsets"][1:-1])
    return {
        "nodes": skeleton_nodes(sequences, n_chunks=N_CHUNKS, root=ROOTS[path.stem]),
        "n_nodes": int(np.prod(joints.shape[1:-1])),
        "labels": arrays["label"],
        "people": arrays["pair" if "pair" in arrays else "subject"],
        "masks": test_masks(arrays, path),
    }


def _hold_outs(skeletons, printed):
    """Masks of the rows to learn and of those held out, all of them training rows."""
    train = ~skeletons["masks"][printed]
    others = {name: mask for name, mask in skeletons["masks"].items() if name != printed}
    if not others:
        rows = np.flatnonzero(train)
        quarters = StratifiedKFold(4, shuffle=True, random_state=0)
        parts = [rows[part] for _, part in quarters.split(rows, skeletons["labels"][rows])]
        others = {f"quarter {k}": np.isin(np.arange(len(train)), p) for k, p in enumerate(parts)}
    return {f"{name} held out": (train & ~mask, mask) for name, mask in others.items()}


def _extract(data_set, skeletons, name, train, test, features, pretraining, seed, device):
    """Send the sequences of one split through a backbone."""
    nodes, labels = skeletons["nodes"], skeletons["labels"]
    pretrain, stream = _deal(data_set, skeletons, train, pretraining, seed)
    n_nodes = skeletons["n_nodes"]
    shape = (n_nodes, nodes.shape[1] // n_nodes)
    extractor = TorchFeatureExtractor(
        PooledGCN,
        backbone_params={
            "n_nodes": shape[0],
            "n_node_features": shape[1],
            "adjacency": data_set.name,
            "random_state": seed,
            **BACKBONES[features][data_set.name],
        },
        input_shape=shape,
        random_state=seed,
        device=device,
        **(PRETRAINING if len(pretrain) else {}),
    )
    seen = pretrain if len(pretrain) else stream[:2]
    X = extractor.fit(nodes[seen], labels[seen]).transform(nodes).astype(np.float64)
    return Split(name, X[stream], labels[stream], X[test], labels[test])


def _deal(data_set, skeletons, train, pretraining, seed):
    """Positions of the sequences that pretrain the backbone, and of those of the stream."""
    labels, people = skeletons["labels"], skeletons["people"]
    if pretraining.protocol == "none":
        return np.arange(0), np.flatnonzero(train)
    if pretraining.protocol == "base":
        base = np.unique(labels)[: data_set.base_classes]
        return np.flatnonzero(train & np.isin(labels, base)), np.flatnonzero(train)
    known = np.unique(people[train])
    theirs = np.isin(people, known[: max(1, round(PRETRAINING_PEOPLE * len(known)))])
    chosen = np.random.default_rng(seed).permutation(np.flatnonzero(train & theirs))
    n_chosen = round(pretraining.share * len(chosen))
    return np.sort(chosen[:n_chosen]), np.flatnonzero(train & ~theirs)


def _firsts(y, most):
    """Positions of the first samples of each class."""
    return np.sort(np.concatenate([np.flatnonzero(y == label)[:most] for label in np.unique(y)]))
