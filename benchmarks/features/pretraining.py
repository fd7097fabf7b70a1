"""Images per second of pretraining and of extraction, beside a loop in bare torch.

The loop has the same network, the same arithmetic and the same optimizer, and gets its images as
tensors that are scaled already; the package starts from bytes, scales, shifts and mirrors them.
Both run in turns, so that the ratio of a turn does not depend on what else the machine does.
Seconds are those of the processor.

    python -m benchmarks.features.pretraining --threads 1 --out pretraining.md pretraining.csv
    python -m benchmarks.features.pretraining --networks small --images 256
"""

import sys
import time

import numpy as np
import torch
from torch import nn

from benchmarks.lib.clock import alternate, comparison
from benchmarks.lib.report import command_line, page, run_and_publish, table
from ffnb_sklearn.backbones import ConvNet, TorchFeatureExtractor

NETWORKS = {
    "small": {"stem_width": 8, "widths": (8, 16), "blocks": (1, 1)},
    "narrow": {},
    "full width": {"stem_width": 64, "widths": (64, 128, 256, 512)},
}
SHAPE = (3, 32, 32)
N_CLASSES = 50
MEAN, STD = 127.5, 73.6
BATCHES = {"pretraining": 128, "extraction": 256}
RECIPE = {"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4}


def make_extractor(network, *, epochs, mixed):
    """Return the extractor whose speed is measured."""
    torch.manual_seed(0)
    return TorchFeatureExtractor(
        ConvNet(**NETWORKS[network]),
        mean=MEAN,
        std=STD,
        batch_size=BATCHES["extraction"],
        device="cpu",
        epochs=epochs,
        optimizer="sgd",
        learning_rate=RECIPE["lr"],
        momentum=RECIPE["momentum"],
        weight_decay=RECIPE["weight_decay"],
        schedule="constant",
        train_batch_size=BATCHES["pretraining"],
        augment="flip-crop",
        mixed_precision=mixed,
        random_state=0,
    )


def draw_images(n):
    """Draw images and labels; the speed does not depend on what they show."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, size=(n, *SHAPE), dtype=np.uint8)
    return images, np.arange(n) % N_CLASSES


class BareLoop:
    """The same work in bare torch, on images that are tensors already."""

    def __init__(self, network, images, labels, *, mixed, channels_last):
        torch.manual_seed(0)
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        self.mixed = mixed
        body = ConvNet(**NETWORKS[network])
        self.model = nn.Sequential(body, nn.Linear(body.n_features, N_CLASSES))
        self.model.to(memory_format=self.layout)
        scaled = (torch.from_numpy(images).float() - MEAN) / STD
        self.images = scaled.contiguous(memory_format=self.layout)
        self.labels = torch.from_numpy(labels)

    def autocast(self):
        """The arithmetic of the package with the same setting."""
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.mixed)

    def pretraining(self):
        """Train for an epoch."""
        self.model.train()
        optimizer = torch.optim.SGD(self.model.parameters(), **RECIPE)
        for part in torch.randperm(len(self.images)).split(BATCHES["pretraining"]):
            optimizer.zero_grad()
            with self.autocast():
                scores = self.model(self.images[part].contiguous(memory_format=self.layout))
                loss = nn.functional.cross_entropy(scores, self.labels[part])
            loss.backward()
            optimizer.step()

    def extraction(self):
        """Features of all images."""
        network = self.model[0].eval().requires_grad_(False)
        with torch.inference_mode(), self.autocast():
            parts = [network(part) for part in self.images.split(BATCHES["extraction"])]
        features = torch.cat(parts).float().numpy()
        network.requires_grad_(True)
        return features


def processor_seconds(function, *arguments):
    """Seconds of the processor that a call takes, all threads together."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def candidates(network, work, images, labels, *, mixed):
    """Return the calls to time: the package, and the loop in both memory layouts."""
    loops = {
        name: BareLoop(network, images, labels, mixed=mixed, channels_last=last)
        for name, last in (("channels last", True), ("channels first", False))
    }
    if work == "pretraining":
        extractor = make_extractor(network, epochs=1, mixed=mixed)
        runs = {"package": lambda: extractor.fit(images, labels)}
    else:
        extractor = make_extractor(network, epochs=0, mixed=mixed).fit(images[:2])
        runs = {"package": lambda: extractor.transform(images)}
    runs |= {name: getattr(loop, work) for name, loop in loops.items()}
    return {name: lambda run=run: processor_seconds(run) for name, run in runs.items()}


def measure_speed(network, work, options, *, mixed):
    """Measure one row of the table: images per second, and the share of the bare loop."""
    images, labels = draw_images(options.images)
    runs = candidates(network, work, images, labels, mixed=mixed)
    # The first call sets up caches and threads, which count for neither.
    warm, warm_labels = draw_images(BATCHES["pretraining"])
    for run in candidates(network, work, warm, warm_labels, mixed=mixed).values():
        run()
    seconds = alternate(runs, options.repeats)
    compared = comparison(seconds["channels last"], seconds["package"])
    rates = {name: options.images / np.median(values) for name, values in seconds.items()}
    record = {
        "network": network,
        "work": work,
        "arithmetic": "bfloat16" if mixed else "float32",
        **rates,
        **{name: compared[name] for name in ("ratio", "ratio_min", "ratio_max")},
    }
    print(record, file=sys.stderr, flush=True)
    return record


def speed_lines(records):
    """Markdown table of images per second."""
    columns = ["network", "work", "arithmetic", "package", "bare loop", "package / bare loop"]
    rows = [
        [
            *(one[name] for name in columns[:3]),
            *(f"{one[name]:.0f}" for name in ("package", "channels last")),
            f"{100 * one['ratio']:.0f} %",
            f"{100 * one['ratio_min']:.0f} %, {100 * one['ratio_max']:.0f} %",
            f"{one['channels first']:.0f}",
        ]
        for one in records
    ]
    return table([*columns, "least, largest", "bare loop, channels first"], rows)


def run(options):
    """Measure all networks, both works, with and without bfloat16."""
    return [
        measure_speed(network, work, options, mixed=mixed)
        for network in options.networks
        for work in BATCHES
        for mixed in (False, True)
    ]


def report(records, options, environment):
    """Return the page as Markdown."""
    notes = [
        f"{options.images} images of 32 x 32 pixels drawn at random (seed 0), {N_CLASSES} "
        f"classes; {options.repeats} rounds in turns, medians of the seconds of the processor",
        "networks: `ConvNet()` (narrow) and `ConvNet(stem_width=64, widths=(64, 128, 256, "
        "512))` (full width)",
        f"pretraining: one epoch of SGD, batches of {BATCHES['pretraining']}; the package "
        "also builds and checks the network, scales, shifts and mirrors the images",
        f"extraction: batches of {BATCHES['extraction']}; the package also scales the images "
        "and checks the features",
        "bare loop: torch alone, from scaled tensors, bfloat16 by autocast; the channels "
        "last in memory, as in the package, then the channels first",
    ]
    return page("Images per second of a backbone", environment, notes, speed_lines(records))


def main(arguments=None):
    """Measure, print the report and write the files that are asked for."""
    parser = command_line(__doc__, rows="the speeds")
    add = parser.add_argument
    add("--networks", nargs="+", choices=NETWORKS, default=["narrow", "full width"])
    add("--images", type=int, default=1024, help="of each repetition")
    add("--repeats", type=int, default=3)
    run_and_publish(run, report, parser.parse_args(arguments))


if __name__ == "__main__":
    main()
