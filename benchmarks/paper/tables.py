"""What each table of the paper varies, beside the figures that it prints."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import nan

from benchmarks.paper import printed
from benchmarks.paper.data_sets import (
    CIFAR,
    FPHA,
    FPHA_BY_CLASS,
    NONE,
    SBU,
    DataSet,
    Pretraining,
)

# A row is measured without fine-tuning and with Algorithm 2; the paper's figures have it.
CLOSED, TRAINED = "closed form", "trained"


@dataclass(frozen=True)
class Row:
    """A row of a table: a model, how it differs from the common settings, printed figures.

    `model` is a model of `runs.build_model`, and `parameters` differ from those of the data set.
    A `Study` gives a row without a data set to each of its data sets. Printed accuracies are in
    percent after each report, nan where there is none. `epochs` replaces the data set's number, and
    a row of several splits may run on the printed split alone.
    """

    label: str
    data_set: DataSet | None = None
    model: str = "paper"
    parameters: Mapping = field(default_factory=dict)
    pretraining: Pretraining = NONE
    features: str = "gcn-narrow"
    accuracies: tuple[float, ...] = ()
    bound: float = nan
    modes: tuple[str, ...] = (CLOSED, TRAINED)
    epochs: int | None = None
    only_printed: bool = False

    @property
    def final(self):
        """Printed accuracy after the last task."""
        return self.accuracies[-1] if self.accuracies else nan


@dataclass(frozen=True)
class Table:
    """One table to make again.

    `rows_are` heads the labels of the rows, `source` is the label of the printed table in the
    source of the paper (empty for a table of our own), and `sections` are keys of
    `report.SECTIONS`.
    """

    name: str
    title: str
    rows_are: str
    source: str
    rows: tuple[Row, ...]
    sections: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A table that the paper has for several data sets.

    `sources` maps a data set to the label of its printed table, and `notes` such a label to a note
    on its figures. A table has those of `rows` that are printed, in their order; with `unprinted`
    also the others, and behind them `own_rows`. Studies of FPHA have tasks of five classes, and
    with `by_class` also tasks of one.
    """

    name: str
    title: str
    rows_are: str
    sources: Mapping[str, str]
    rows: tuple[Row, ...] = ()
    own_rows: tuple[Row, ...] = ()
    sections: tuple[str, ...] = ("finals", "tasks")
    notes: Mapping[str, str] = field(default_factory=dict)
    unprinted: bool = False
    by_class: bool = False

    def table(self, data_set):
        """Return the table of one data set."""
        source = self.sources[data_set.name]
        rows = {row.label: row for row in self.rows}
        figures = printed_figures(source, data_set.n_reports)
        chosen = [replace(rows[label], **cells) for label, cells in figures.items()]
        if self.unprinted:
            chosen += [row for label, row in rows.items() if label not in figures]
        notes = (data_set.note, self.notes.get(source, ""))
        return Table(
            f"{data_set.prefix}-{self.name}",
            f"{self.title}, {data_set.title}",
            self.rows_are,
            source,
            tuple(
                replace(row, data_set=row.data_set or data_set) for row in (*chosen, *self.own_rows)
            ),
            self.sections,
            tuple(note for note in notes if note),
        )


def printed_figures(source, n_reports):
    """Figures of a printed table: attributes of `Row`, by the label of the row."""
    unknown = (nan,) * (n_reports - 1)
    bounds = printed.BOUNDS.get(source, {})
    accuracies = printed.ACCURACIES.get(source, {})
    return {label: {"accuracies": cells} for label, cells in accuracies.items()} | {
        label: {"bound": bound, "accuracies": (*unknown, final)}
        for label, (bound, final) in bounds.items()
    }


def _rows(name, values, label="{}"):
    """One row for each value of a parameter."""
    return tuple(Row(label.format(value), parameters={name: value}) for value in values)


def _switches(**named):
    """One row for each combination of named values of several parameters."""
    return tuple(
        Row(" / ".join(labels), parameters=dict(zip(named, values, strict=True)))
        for labels, values in (
            zip(*choice, strict=True) for choice in product(*(v.items() for v in named.values()))
        )
    )


_COVARIANCE = {"off": "identity", "on": "class"}
_ON_OFF = {"off": False, "on": True}
_BASELINES = (
    # As many epochs as the paper has.
    Row("Algorithm 1", model="algorithm 1", modes=(TRAINED,), epochs=250, only_printed=True),
    Row("joint", model="paper joint"),
)
# The same baselines with the graph convolution trained, as the paper has them.
_END_TO_END = tuple(
    Row(label, model=model, modes=(TRAINED,), epochs=250, only_printed=True)
    for label, model in (
        ("Algorithm 1 through the convolution", "end-to-end"),
        ("joint through the convolution", "end-to-end joint"),
    )
)
# The pairs of the paper on the inputs of its network, without any band.
NO_LAYER = {"band_size": 0, "skip_connection": True}
# Classifiers of the package that are not as published: without a band, and with one trained neuron
# per class beside random neurons.
IDA = "IncrementalDiscriminantAnalysis"
ONE_NEURON = "FFNBClassifier(band_size=1)"
_IDA = Row("IDA", model=IDA, modes=(CLOSED,))
_IDA_JOINT = Row("joint, IDA", model=f"{IDA} joint", modes=(CLOSED,))
_P_VALUES = (15, 25, 30, 35, 45, 50, 55, 60, 75, 90, 105, 120)

# Without pretraining, but without the pretraining people too.
_EVERYONE, _SAME_STREAM = Pretraining("all"), Pretraining("all", 0.0)

_SHIFTED = (
    "From T3 on, figures of the paper are printed one task too early where its backbone is not "
    "pretrained: they are multiples of 1/38, 1/43 and so on, the test sequences after T4, T5, ..., "
    "and the last is printed twice."
)


def _tuned(label, pretraining):
    """Two rows, without and with fine-tuning."""
    return (
        Row(f"{label} / off", pretraining=pretraining, modes=(CLOSED,)),
        Row(f"{label} / on", pretraining=pretraining, modes=(TRAINED,)),
    )


def _decayed(k, **changes):
    """A row of a weight decay of 10 to the -k, trained as long as in the paper."""
    return Row(
        ", ".join([f"1e-{k}", *(f"{name}={value}" for name, value in changes.items())]),
        parameters={"bands__weight_decay": float(f"1e-{k}"), **changes},
        modes=(TRAINED,),
        epochs=250,
        only_printed=True,
    )


STUDIES = (
    Study(
        "p",
        "Axes kept for previous tasks",
        "p",
        {"sbu": "table1", "fpha": "table12"},
        (*_rows("p", _P_VALUES, "p={}"), *_BASELINES),
        (_IDA_JOINT, *_END_TO_END),
        sections=("finals", "tasks", "sizes"),
        by_class=True,
    ),
    Study(
        "ridges",
        "Settings that the paper does not print: both ridges",
        "gamma / epsilon / null-space",
        {"sbu": "", "fpha": ""},
        own_rows=tuple(
            replace(row, only_printed=True)
            for row in _switches(
                bands__gamma={f"{one:g}": one for one in (0.05, 0.5, 2.0)},
                epsilon={f"{one:g}": one for one in (0.01, 0.03, 0.1)},
                bands__null_space=_ON_OFF,
            )
        ),
        sections=("finals",),
    ),
    Study(
        "steps",
        "Our number of epochs",
        "epochs",
        {"sbu": "", "fpha": ""},
        own_rows=tuple(
            Row(f"{epochs}", epochs=epochs, only_printed=True) for epochs in (10, 30, 100)
        ),
        sections=("bounds", "finals"),
    ),
    Study(
        "ablation",
        "Null-space, class covariances and initialisation",
        "null-space / class covariances / initialisation",
        {"sbu": "tablecc", "fpha": "tabledd"},
        _switches(
            bands__null_space=_ON_OFF,
            covariance=_COVARIANCE,
            bands__init={name: name for name in ("random", "mono", "multi")},
        ),
        (Row("on / pooled / multi", parameters={"shrinkage": 1.0}),),
        notes={
            "tabledd": "The paper crosses multi-task initialisation out and does not print what is "
            "in its place. Printed figures stand beside random; mono is the other reading."
        },
        unprinted=True,
        by_class=True,
    ),
    Study(
        "layers",
        "Number of layers",
        "feature layers",
        {"sbu": "tableaa", "fpha": "tablebb"},
        (
            Row("2 layers", parameters=NO_LAYER, modes=(CLOSED,)),
            Row("3 layers", parameters={"n_layers": 1}),
            Row("4 layers", parameters={"n_layers": 2}),
        ),
        (
            Row("three feature layers", parameters={"n_layers": 3}),
            Row("four feature layers", parameters={"n_layers": 4}),
            _IDA,
        ),
        notes=dict.fromkeys(
            ("tableaa", "tablebb"),
            "By the printed network sizes, 3 printed layers are one feature layer. In this "
            "reading 2 printed layers are none, and 4 are two.",
        ),
        unprinted=True,
        by_class=True,
    ),
    Study(
        "band",
        "Size of the bands",
        "band size",
        {"sbu": "tablehh", "fpha": "tableii"},
        _rows("band_size", (1, 3, 5, 7, 9)),
        notes={
            "tableii": "Seven printed figures of band size 9 are no shares of the numbers of test "
            "sequences that fit all other rows; the last is no multiple of 1/575."
        },
        by_class=True,
    ),
    Study(
        "pretraining",
        "Pretraining and fine-tuning",
        "pretraining / fine-tuning",
        {"sbu": "table6", "fpha": "table62"},
        (*_tuned("off", NONE), *_tuned("on", _EVERYONE)),
        (*_tuned("base", Pretraining("base")), *_tuned("off, same stream", _SAME_STREAM)),
        notes={
            "table6": _SHIFTED,
            "table62": "The row off / on of the paper, and the first figure of off / off, follow "
            "another class order: 49/76, 84/138, ... and 48/76 instead of shares of 63, 126, ...",
        },
    ),
    Study(
        "pretraining-share",
        "Share of the pretraining data",
        "pretraining",
        {"fpha": "table6w"},
        (
            Row("no pretraining"),
            Row("pretraining on 25 %", pretraining=Pretraining("all", 0.25)),
            Row("pretraining on 50 %", pretraining=Pretraining("all", 0.5)),
            Row("pretraining on 100 %", pretraining=_EVERYONE),
        ),
        (Row("no pretraining, same stream", pretraining=_SAME_STREAM),),
    ),
    Study(
        "classifier",
        "One-vs-all and one-vs-one",
        "classifier",
        {"sbu": "tablebbb", "fpha": "tablebbbb"},
        (
            Row("one-vs-all", model="softmax", modes=(TRAINED,), epochs=250, only_printed=True),
            Row("one-vs-one", parameters={"classifier": "ovo"}),
        ),
        (Row("one-vs-all ridge", parameters={"classifier": "ova"}),),
        notes={"tablebbb": _SHIFTED + " The one-vs-one row is such a row of table6."},
    ),
    Study(
        "activation",
        "Activation against the bound on forgetting",
        "activation",
        {"sbu": "tableiii", "fpha": "tableiii2"},
        _rows("bands__activation", ("tanh", "sigmoid", "relu")),
        sections=("bounds", "finals"),
        by_class=True,
    ),
    Study(
        "p-bound",
        "Axes kept against the bound on forgetting",
        "p",
        {"sbu": "tableiiii", "fpha": "tableiiiii"},
        _rows("p", _P_VALUES, "p={}"),
        sections=("bounds", "finals"),
        notes={"tableiiiii": "The printed final accuracies are not those of table12."},
    ),
    Study(
        "decay",
        "Weight decay against the bound on forgetting",
        "weight decay",
        {"sbu": "tableiiiibis", "fpha": "tableiiiiibis"},
        tuple(_decayed(k) for k in range(8, 1, -1)),
        tuple(_decayed(k, epsilon=0.01) for k in (8, 3, 2)),
        sections=("bounds", "finals"),
        notes=dict.fromkeys(
            ("tableiiiibis", "tableiiiiibis"),
            "250 epochs of Algorithm 2 per task, as in the paper.",
        ),
    ),
    Study(
        "batch-norm",
        "Batch normalisation and class covariances",
        "batch normalisation / class covariances",
        {"sbu": "table6aaaa", "fpha": "table6bbbb"},
        _switches(bands__batch_norm=_ON_OFF, covariance=_COVARIANCE),
    ),
)


def _cifar_table(scenario):
    """The matrix of groups of classes and tasks of one CIFAR-100 stream."""
    data_set = CIFAR[scenario]
    figures = {"data_set": data_set, "accuracies": printed.CIFAR_ACCURACIES[scenario]}
    rows = (
        Row("two feature layers", **figures),
        Row(
            "two feature layers, rate=0.001",
            parameters={"bands__learning_rate": 0.001},
            modes=(TRAINED,),
            **figures,
        ),
        Row("one feature layer", parameters={"n_layers": 1}, **figures),
        Row("FFNB, band_size=1", model=ONE_NEURON, modes=(CLOSED,), **figures),
    )
    slip = {
        "S5": "Two printed figures are slips, by the others of the table: the average of classes "
        "71 to 80 is 60.93, and the accuracy after T1 78.85."
    }
    return Table(
        f"cifar-{scenario.lower()}",
        data_set.title,
        "model",
        f"tab:cifar100_b50_{scenario.lower()}",
        rows,
        ("finals", "averages", "tasks", "matrices"),
        (data_set.note, *filter(None, [slip.get(scenario)])),
    )


def _cifar_methods():
    """Average incremental accuracies of other methods, as the paper prints them."""
    joint = Row(
        "joint, FFNB, band_size=1", CIFAR["S10"], model=f"{ONE_NEURON} joint", modes=(CLOSED,)
    )
    return Table(
        "cifar-methods",
        "CIFAR100-B50 beside other methods",
        "method",
        "tab:cifar100_b50",
        (joint,),
        ("finals", "methods"),
    )


def paper_tables():
    """All tables, by name."""
    tables = [
        study.table(data_set)
        for data_set in (SBU, FPHA, FPHA_BY_CLASS)
        for study in STUDIES
        if data_set.name in study.sources and (data_set is not FPHA_BY_CLASS or study.by_class)
    ]
    tables += [*(_cifar_table(scenario) for scenario in CIFAR), _cifar_methods()]
    return {table.name: table for table in tables}
