"""Make the tables of the paper's data sets from their official files.

    python -m benchmarks.paper.official --data FOLDER
    python -m benchmarks.paper.official --data FOLDER --sets cifar --epochs 30 --device cuda

The commands of this room read ``sbu.npz``, ``fpha.npz`` and ``cifar100_b50.npz`` of the folder
``--data``. Where such a file is missing, they make it with this module, once, from the official
files in the same folder, or in its subfolders ``sbu``, ``fpha`` and ``cifar-100-python``. The page
docs/benchmarks/formats.rst says what each array is.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from benchmarks.lib.data import default_folder
from ffnb_sklearn.backbones import ConvNet, TorchFeatureExtractor
from ffnb_sklearn.datasets import load_cifar100, load_fpha, load_sbu

# Classes of CIFAR-100 that the backbone may see, the first task of every stream.
BASE_CLASSES = 50
# Seed of the order in which most papers stream CIFAR-100.
ORDER_SEED = 1993

# Weights of the backbone of CIFAR-100, which are trained where the folder does not have this file.
WEIGHTS = "cifar100_backbone.pt"
# Scaling of the pixels per channel.
SCALING = {"mean": (129.3, 124.1, 112.4), "std": (68.2, 65.4, 70.4)}
TRAINING = {
    "epochs": 30,
    "optimizer": "sgd",
    "learning_rate": 0.2,
    "weight_decay": 5e-4,
    "train_batch_size": 128,
    "augment": "flip-crop",
}


def table_path(folder, name, **options):
    """Return the path of a table in a folder, such as "sbu.npz"; make it if it is missing.

    Parameters
    ----------
    folder : Path
        Folder with the table or the official files.
    name : str
        Name of a file; those that are not in `TABLES` are not made.
    **options
        Options of the table.

    Raises
    ------
    FileNotFoundError
        If both the table and an official file are missing.
    """
    path = folder / name
    if path.is_file() or name not in TABLES:
        return path
    title, read = TABLES[name]
    print(f"{path}: made from the official files of {title}", file=sys.stderr)
    try:
        arrays = read(folder, **options)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"no file at {path}, and the official files of {title} are not complete: {error} "
            "Give the folder of either with --data."
        ) from None
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as file:
        np.savez_compressed(file, **arrays)
    os.replace(partial, path)
    return path


def _sbu(folder):
    """Return the arrays of SBU."""
    found = load_sbu(_subfolder(folder, "sbu"))
    return {
        **_sequences(found.data),
        "label": found.target,
        "fold": found.fold,
        "pair": found.pair,
    }


def _fpha(folder):
    """Return the arrays of FPHA."""
    found = load_fpha(_subfolder(folder, "fpha"))
    return {
        **_sequences(found.data),
        "label": found.target,
        "split": np.where(found.train, 0, 1),
        "subject": found.subject,
    }


def _cifar(folder, *, epochs=TRAINING["epochs"], device="cpu"):
    """Return the features of CIFAR-100 of a network that has seen the first classes alone."""
    found = load_cifar100(folder)
    order = np.random.RandomState(ORDER_SEED).permutation(len(found.target_names))
    labels = np.argsort(order)[found.target]
    images = found.data.reshape(-1, 3, 32, 32)
    train = found.train
    weights = folder / WEIGHTS
    is_given = weights.is_file()
    extractor = TorchFeatureExtractor(
        ConvNet,
        weights=weights if is_given else None,
        device=device,
        random_state=0,
        **SCALING,
        **({} if is_given else {**TRAINING, "epochs": epochs}),
    )
    is_base = train & (labels < BASE_CLASSES)
    extractor.fit(images[is_base], labels[is_base])
    features = extractor.transform(images).astype(np.float16)
    return {
        "x_train": features[train],
        "y_train": labels[train],
        "x_test": features[~train],
        "y_test": labels[~train],
        "order": order,
    }


def _sequences(sequences):
    """Return sequences of frames as one array, and where each begins."""
    lengths = [len(sequence) for sequence in sequences]
    return {
        "joints": np.concatenate(sequences).astype(np.float32),
        "offsets": np.cumsum([0, *lengths]),
    }


def _subfolder(folder, name):
    """Return a subfolder, or the folder itself without it."""
    return folder / name if (folder / name).is_dir() else folder


TABLES = {
    "sbu.npz": ("SBU", _sbu),
    "fpha.npz": ("FPHA", _fpha),
    "cifar100_b50.npz": ("CIFAR-100", _cifar),
}
SETS = {"sbu": "sbu.npz", "fpha": "fpha.npz", "cifar": "cifar100_b50.npz"}


def main(arguments=None):
    """Make the tables that the command line asks for, and print their arrays."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, default=default_folder(), help="folder of the official files")
    add("--sets", nargs="+", choices=SETS, default=list(SETS))
    add("--epochs", type=int, default=TRAINING["epochs"], help="of the backbone of CIFAR-100")
    add("--device", default="cpu", help="of the backbone of CIFAR-100")
    options = parser.parse_args(arguments)
    for name in options.sets:
        training = {"epochs": options.epochs, "device": options.device} if name == "cifar" else {}
        path = table_path(options.data, SETS[name], **training)
        with np.load(path) as arrays:
            for key in arrays.files:
                print(path.name, key, arrays[key].shape, arrays[key].dtype)


if __name__ == "__main__":
    main()
