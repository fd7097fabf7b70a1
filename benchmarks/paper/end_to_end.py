"""The paper's baselines through the convolutions: Algorithm 1 and joint training of all parameters.

The paper's baselines "learn the convolutional block and FFNB end-to-end using the whole ambient
space". The graph convolution of the data set, a band per task and linear outputs are trained by the
multi-class hinge loss, with the descent of Algorithm 1 and all its epochs. In a stream, the bands
and outputs of earlier tasks stay; the filters of the convolution belong to all tasks, and each task
moves them.

    python -m benchmarks.paper.end_to_end --seeds 0 1 2 --data FOLDER

The training of `TorchFeatureExtractor` has no place here: it has a fixed set of classes, and
discards its outputs.
"""

import argparse
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.lib.data import Split, default_folder
from benchmarks.paper.data_sets import FEATURES, FPHA, FPHA_BY_CLASS, SBU, read_skeletons
from ffnb_sklearn import evaluate_stream
from ffnb_sklearn._base.band_parameters import descent_of
from ffnb_sklearn.backbones import SkeletonGCN
from ffnb_sklearn.core.bands.tuning.descent import MomentumSteps, multi_class_hinge
from ffnb_sklearn.core.bands.tuning.naive import (
    append_parameters,
    empty_network,
    grow,
    newest_parameters,
    newest_scores,
)


class EndToEndClassifier(ClassifierMixin, BaseEstimator):
    """A graph convolution, bands of neurons and linear outputs, trained together.

    Parameters
    ----------
    backbone_params : dict
        Parameters of `SkeletonGCN`, also `n_nodes` and `n_node_features`. Samples are rows of
        nodes.
    band_size : int, default=3
        Number of neurons per new class.
    max_epochs : int, default=250
        Number of epochs per task.
    learning_rate, momentum, weight_decay, batch_size, patience
        As in `NaiveIncrementalClassifier`; the patience is None by default.
    random_state : int, default=0
        Seed of all weights and of the mini-batches.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in order of arrival.
    n_parameters_ : int
        Number of weights and offsets, those of the convolution included.
    n_iter_ : int
        Number of epochs of the last task; 0 for a single class, which has no loss.
    """

    def __init__(
        self,
        backbone_params,
        *,
        band_size=3,
        max_epochs=250,
        learning_rate=0.01,
        momentum=0.9,
        weight_decay=1e-8,
        batch_size=50,
        patience=None,
        random_state=0,
    ):
        self.backbone_params = backbone_params
        self.band_size = band_size
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.patience = patience
        self.random_state = random_state

    def fit(self, X, y):
        """Learn all classes jointly."""
        if hasattr(self, "network_"):
            del self.network_
        return self.partial_fit(X, y)

    def partial_fit(self, X, y):
        """Learn one more task, all of whose classes are new."""
        nodes = self._nodes(X)
        if not hasattr(self, "network_"):
            self._start(nodes)
        new_labels = np.unique(y)
        self.classes_ = np.append(self.classes_, new_labels)
        positions = {label: position for position, label in enumerate(self.classes_)}
        classes = torch.tensor([positions[label] for label in y])
        self.network_ = grow(self.network_, len(new_labels), self.band_size, "relu")
        if self.network_.n_classes > 1:
            self._train_newest(nodes, classes)
        n_filter_weights = sum(weights.numel() for weights in self.backbone_.parameters())
        self.n_parameters_ = n_filter_weights + self.network_.n_weights
        self.n_iter_ = len(self.network_.loss_curve)
        return self

    @torch.no_grad()
    def decision_function(self, X):
        """Return the outputs, one column per entry of `classes_`."""
        features = self.backbone_(self._nodes(X))
        return self.network_.scores(features).numpy()

    def predict(self, X):
        """Return the label of the largest output of each sample."""
        return self.classes_[self.decision_function(X).argmax(axis=1)]

    def _nodes(self, X):
        """Return rows as nodes, of shape (n_samples, n_nodes, n_node_features)."""
        shape = (self.backbone_params["n_nodes"], self.backbone_params["n_node_features"])
        return torch.as_tensor(X, dtype=torch.float64).reshape(-1, *shape)

    def _start(self, nodes):
        """Draw the filters, and set up the network without a task."""
        seed = self.random_state
        self.backbone_ = SkeletonGCN(random_state=seed, **self.backbone_params).double()
        with torch.no_grad():
            self.network_ = empty_network(self.backbone_(nodes), n_layers=1, seed=seed)
        self.classes_ = np.array([], dtype=int)

    def _train_newest(self, nodes, classes):
        """Train the newest band and outputs, and the filters, which belong to all tasks."""
        network = self.network_
        bands = network.newest_bands
        old_network = network.remove_newest_task()
        backbone = deepcopy(self.backbone_)
        parameters = newest_parameters(network, nodes.device)

        def loss(batch):
            features = backbone(nodes[batch])
            new_scores = newest_scores(bands, old_network.layers(features), parameters)
            scores = torch.cat([old_network.scores(features), new_scores], dim=1)
            return multi_class_hinge(scores, classes[batch]).mean()

        rng = np.random.default_rng([network.seed, len(network.outputs), 1])
        losses = []
        steps = MomentumSteps([*parameters, *backbone.parameters()], descent_of(self))
        for _ in steps.epochs(losses):
            losses.append(steps.epoch(loss, len(nodes), rng))
        old_network = replace(old_network, loss_curve=tuple(losses))
        self.network_ = append_parameters(old_network, bands, parameters)
        self.backbone_ = backbone


def load_nodes(data_set, folder):
    """Load the splits of a data set by name, with rows of nodes instead of features."""
    skeletons = read_skeletons(folder, data_set.name)
    nodes = skeletons["nodes"]
    labels = skeletons["labels"]
    splits = {}
    for name, test in skeletons["masks"].items():
        splits[name] = Split(name, nodes[~test], labels[~test], nodes[test], labels[test])
    return splits


def build_end_to_end(data_set, folder, *, seed, **parameters):
    """Return the unfitted classifier of a data set, with the narrow convolution of its tables."""
    skeletons = read_skeletons(folder, data_set.name)
    n_nodes = skeletons["n_nodes"]
    backbone_params = {
        "n_nodes": n_nodes,
        "n_node_features": skeletons["nodes"].shape[1] // n_nodes,
        "adjacency": data_set.name,
        **FEATURES["gcn-narrow"][data_set.name],
    }
    return EndToEndClassifier(backbone_params, random_state=seed, **parameters)


def stream_accuracies(data_set, folder, split, **parameters):
    """Return the accuracies of Algorithm 1 over all classes so far, after each report."""
    samples = load_nodes(data_set, folder)[split]
    model = build_end_to_end(data_set, folder, **parameters)
    result = evaluate_stream(
        model, samples.X, samples.y, samples.X_test, samples.y_test, **data_set.stream
    )
    every = data_set.tasks_per_report
    return result.accuracies[every - 1 :: every]


def joint_accuracy(data_set, folder, split, **parameters):
    """Return the accuracy of joint training on all classes."""
    samples = load_nodes(data_set, folder)[split]
    model = build_end_to_end(data_set, folder, **parameters)
    return model.fit(samples.X, samples.y).score(samples.X_test, samples.y_test)


def main(arguments=None):
    """Print final accuracies over the seeds: mean and standard deviation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=default_folder())
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, default=250)
    options = parser.parse_args(arguments)
    print("| data set | Algorithm 1 | joint |\n|---|---|---|")
    for data_set in (SBU, FPHA, FPHA_BY_CLASS):
        finals = []
        joint = []
        for seed in options.seeds:
            parameters = {"seed": seed, "max_epochs": options.epochs}
            accuracies = stream_accuracies(data_set, options.data, data_set.split, **parameters)
            finals.append(100.0 * accuracies[-1])
            # Joint training knows no tasks, so it is the same for both streams of FPHA.
            if data_set is not FPHA_BY_CLASS:
                accuracy = joint_accuracy(data_set, options.data, data_set.split, **parameters)
                joint.append(100.0 * accuracy)
        cells = [f"{np.mean(v):.2f} ± {np.std(v):.2f}" if v else "" for v in (finals, joint)]
        print(f"| {data_set.title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
