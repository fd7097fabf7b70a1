"""Compare the descriptor of skeleton sequences with a graph convolution, pretrained in three ways.

The network is a `SkeletonGCN` without training, pretrained without labels on the first task's
sequences, or pretrained on the base classes. Without labels, it learns in which order the eight
parts of a sequence come (forwards, backwards, halves swapped, halves reversed) and whether the
sequence is mirrored. Only people that are left out of the training people are scored: no test
sequence is used.

    python benchmarks/skeleton_networks.py --out networks.md networks.csv
    python benchmarks/skeleton_networks.py --sets fpha --seeds 0
"""

import sys
from itertools import product

import numpy as np
from _paper_features import N_CHUNKS, ROOTS
from _paper_settings import BACKBONES, PRETRAINING
from _report import command_line, page, publish, run_limited, table
from skeletons import CANDIDATES, CLASSES_PER_TASK, describe, load, make_classifier

from ffnb_sklearn.backbones import SkeletonGCN, TorchFeatureExtractor, skeleton_nodes

NETWORKS = {
    "untrained": "network, not trained",
    "self-supervised": "network, pretrained without labels on the first task",
    "supervised": "network, pretrained on the base classes",
}

# Base classes of the supervised pretraining: the first task of FPHA, half of the classes of SBU,
# whose first task has a single class.
BASE_CLASSES = {"sbu": 4, "fpha": 5}


def pretext(nodes, n_nodes):
    """Reorder and mirror sequences.

    Parameters
    ----------
    nodes : ndarray of shape (n_sequences, n_nodes * 24)
        Joints in eight parts of a sequence, as `skeleton_nodes` returns them.
    n_nodes : int
        Number of joints.

    Returns
    -------
    X : ndarray of shape (8 * n_sequences, n_nodes * 24)
        Each sequence in four orders of its parts, plain and mirrored.
    y : ndarray of shape (8 * n_sequences,)
        What was done.
    """
    parts = nodes.reshape(len(nodes), n_nodes, N_CHUNKS, 3)
    forwards, half = np.arange(N_CHUNKS), N_CHUNKS // 2
    swapped = np.roll(forwards, half)
    orders = [forwards, forwards[::-1], swapped, swapped[::-1]]
    changed = [
        (parts[:, :, order] * [sign, 1.0, 1.0]).reshape(len(nodes), -1)
        for order, sign in product(orders, (1.0, -1.0))
    ]
    return np.concatenate(changed), np.repeat(np.arange(len(changed)), len(nodes))


def network_rows(kind, data, nodes, learned, seed):
    """Compute the features of all sequences by a network that has seen learned sequences alone."""
    n_nodes = nodes.shape[1] // (N_CHUNKS * 3)
    n_base = CLASSES_PER_TASK[data.name] if kind == "self-supervised" else BASE_CLASSES[data.name]
    base = learned & np.isin(data.y, np.unique(data.y)[:n_base])
    X, y = (
        pretext(nodes[base], n_nodes) if kind == "self-supervised" else (nodes[base], data.y[base])
    )
    extractor = TorchFeatureExtractor(
        SkeletonGCN,
        backbone_params={
            "n_nodes": n_nodes,
            "n_node_features": N_CHUNKS * 3,
            "adjacency": data.name,
            "random_state": seed,
            **BACKBONES["gcn"][data.name],
        },
        input_shape=(n_nodes, N_CHUNKS * 3),
        random_state=seed,
        **({} if kind == "untrained" else PRETRAINING),
    )
    return extractor.fit(X, y).transform(nodes).astype(np.float64)


def candidates(data, nodes, descriptor, learned, seed):
    """Yield the label and the rows of each candidate; two blocks side by side have equal energy."""
    yield "descriptor", descriptor
    for kind, label in NETWORKS.items():
        rows = network_rows(kind, data, nodes, learned, seed)
        yield label, rows
        energies = [np.square(block).sum() for block in (descriptor, rows)]
        scaled = rows * np.sqrt(energies[0] / energies[1])
        yield f"descriptor and {label}", np.hstack([descriptor, scaled])


def run(options):
    """Records of all sets, seeds, groups of people and candidates."""
    records = []
    for name in options.sets:
        data = load(options.data, name)
        nodes = skeleton_nodes(data.sequences, n_chunks=N_CHUNKS, root=ROOTS[name])
        descriptor = describe(CANDIDATES["default"], data)
        split, test = next(iter(data.tests.items()))
        for seed, group in product(options.seeds, np.unique(data.groups[~test])):
            scored = ~test & (data.groups == group)
            learned = ~test & ~scored
            for label, X in candidates(data, nodes, descriptor, learned, seed):
                classifier = make_classifier(CANDIDATES["default"], data, seed)
                right = classifier.fit(X[learned], data.y[learned]).predict(X[scored])
                record = {"set": name, "split": split, "seed": seed, "group": group}
                record |= {"rows": label, "width": X.shape[1], "n": int(scored.sum())}
                records.append({**record, "right": int((right == data.y[scored]).sum())})
            print(name, seed, group, file=sys.stderr, flush=True)
    return records


def report(records, environment):
    """The accuracies as Markdown."""
    sets = list(dict.fromkeys(one["set"] for one in records))
    lines = []
    for label in dict.fromkeys(one["rows"] for one in records):
        cells = [label]
        for name in sets:
            own = [one for one in records if one["rows"] == label and one["set"] == name]
            share = sum(one["right"] for one in own) / sum(one["n"] for one in own)
            cells.append(f"{100 * share:.2f} ({own[0]['width']})")
        lines.append(cells)
    seeds = sorted({one["seed"] for one in records})
    splits = ", ".join(dict.fromkeys(f"{one['set']}: {one['split']}" for one in records))
    notes = [
        f"seeds: {', '.join(map(str, seeds))}, of the filters, of the pretraining and of the "
        "classifier; FFNBClassifier()",
        f"accuracy in percent on people left out of the training people of one split ({splits}); "
        "in parentheses the number of columns; no test sequence was scored",
        f"SkeletonGCN of 48 filters and 4 pairings; {PRETRAINING['epochs']} epochs of pretraining",
    ]
    heading = ["rows", *(f"{name.upper()} %" for name in sets)]
    return page("Skeletons: descriptor and network", environment, notes, table(heading, lines))


def main(arguments=None):
    """Run the comparison and print its report."""
    parser = command_line(__doc__, data=True)
    add = parser.add_argument
    add("--sets", nargs="+", choices=list(CLASSES_PER_TASK), default=list(CLASSES_PER_TASK))
    add("--seeds", nargs="+", type=int, default=[0, 1])
    options = parser.parse_args(arguments)
    records, environment = run_limited(run, options)
    publish(report(records, environment), records, options.out)


if __name__ == "__main__":
    main()
