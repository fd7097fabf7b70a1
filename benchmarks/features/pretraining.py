r"""Train a network of the CIFAR-100 benchmarks on the first fifty classes alone.

It starts from the weights that come with the data, which have seen these images thirty times, or
from random weights. No setting was chosen by any accuracy; `layers --weights` measures the result.

    python -m benchmarks.features.pretraining --start random --network wide --epochs 30 \
        --learning-rate 0.2 --cutout 8 --mixed-precision --threads 2 --out backbone.md backbone.csv
    python -m benchmarks.features.pretraining --epochs 12 --threads 1
    python -m benchmarks.features.pretraining --start random --epochs 2 --images-per-class 20
"""

import time
from pathlib import Path

import torch

from benchmarks.features.layers import MEAN, SHAPES, STD, load_images
from benchmarks.lib.report import command_line, environment_lines, limited, page, publish, table
from ffnb_sklearn.backbones import ConvNet, FlipCrop, TorchFeatureExtractor

# Classes of the first task, the only ones that the network sees.
BASE_CLASSES = 50

RECIPE = {"optimizer": "sgd", "weight_decay": 5e-4, "train_batch_size": 128}


def train(options):
    """Train the network; return the extractor and the images per second."""
    images = load_images(options.data, options.images_per_class)
    is_base = images.y_train < BASE_CLASSES
    starts = {"given": options.data / "cifar100_backbone.pt", "random": None}
    extractor = TorchFeatureExtractor(
        ConvNet,
        backbone_params=SHAPES[options.network],
        weights=starts.get(options.start, options.start),
        mean=MEAN,
        std=STD,
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        mixed_precision=options.mixed_precision,
        device=options.device,
        augment=FlipCrop(cutout=options.cutout),
        random_state=options.seed,
        verbose=True,
        **RECIPE,
    )
    start = time.perf_counter()
    extractor.fit(images.train[is_base], images.y_train[is_base])
    return extractor, options.epochs * is_base.sum() / (time.perf_counter() - start)


def save_weights(extractor, path):
    """Keep the weights as float16, in a file that `TorchFeatureExtractor` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: torch.from_numpy(value) for name, value in extractor.state_dict_.items()}
    halves = {key: one.half() if one.is_floating_point() else one for key, one in tensors.items()}
    torch.save(halves, path)


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, rows="epochs", data=True)
    add = parser.add_argument
    add("--start", default="given", help="first weights: given, random or a file; default: given")
    add("--network", choices=list(SHAPES), default="narrow")
    add("--learning-rate", type=float, default=0.05, help="the largest rate; default: %(default)s")
    add("--mixed-precision", action="store_true", help="compute partly in bfloat16")
    add("--cutout", type=int, default=0, help="side of the square cut out of each image, pixels")
    add("--epochs", type=int, default=12)
    add("--images-per-class", type=int, help="training images; default: all 500")
    add("--seed", type=int, default=0)
    add("--device", default="cpu")
    weights = Path("out/backbone.pt")
    add("--weights", type=Path, default=weights, help="where the weights are kept")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Train, keep the weights, and print the report."""
    options = parse(arguments)
    with limited(options.threads):
        extractor, rate = train(options)
        environment = environment_lines(device=options.device)
    save_weights(extractor, options.weights)
    losses = enumerate(extractor.loss_curve_, start=1)
    records = [{"epoch": epoch, "train_loss": loss} for epoch, loss in losses]
    text = page(
        "Pretraining on the first fifty classes",
        environment,
        [
            f"network: {options.network}, ConvNet with {SHAPES[options.network]}",
            f"first weights: {Path(options.start).name}",
            f"learning_rate: {options.learning_rate}",
            f"mixed_precision: {options.mixed_precision}",
            f"recipe: {RECIPE}",
            f"images per second of training: {rate:.0f}",
            f"augment: {extractor.augment}",
        ],
        table(["epoch", "training loss"], [one.values() for one in records]),
    )
    publish(text, records, options.out)


if __name__ == "__main__":
    main()
