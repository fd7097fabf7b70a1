"""The classifiers that `compare` runs, each a row of its tables."""

import ast
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    StratifiedKFold,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ffnb_sklearn import Bands, FFNBClassifier, IncrementalDiscriminantAnalysis
from ffnb_sklearn.baselines import (
    AnaCP,
    FeCAM,
    KernelLDA,
    NearestClassMean,
    RanPAC,
    StreamingLDA,
)

# Settings without a published value, the same for all sets, chosen by hold-outs of training rows.
RANPAC_ALPHA = 100.0
KLDA_ALPHA = 1000.0


@dataclass(frozen=True)
class Context:
    """Seed, width of the heads that lift the rows, device of IDA and FFNB, order of the classes.

    `class_order` is "sorted", "random", which draws by the seed, or a seed of its own.
    """

    seed: int = 0
    width: int = 2000
    device: str = "cpu"
    class_order: str | int = "sorted"


@dataclass(frozen=True)
class Method:
    """A row of the tables: label, estimator factory, note on its settings."""

    label: str
    build: Callable
    note: str
    joint: bool = False
    # Whether the state of a joint method holds the rows that it needs to be fitted again.
    keeps_rows: bool = False


class JointSVM(ClassifierMixin, BaseEstimator):
    """Support vector machine with a Gaussian kernel, its setting chosen on the training rows.

    Raw or standardised rows and C = 1, 10, 100 are compared by 3-fold cross-validation; the best
    is fitted to all rows. The width of the kernel is scikit-learn's ``gamma="scale"``. More than
    `n_search` rows are subsampled for the search, never for the final fit.
    """

    def __init__(self, *, n_search=5000, random_state=None):
        self.n_search = n_search
        self.random_state = random_state

    def fit(self, X, y):
        """Choose the setting, then fit all rows."""
        svm = SVC(gamma="scale", cache_size=1000)
        search = GridSearchCV(
            Pipeline([("scale", "passthrough"), ("svm", svm)]),
            {"scale": ["passthrough", StandardScaler()], "svm__C": [1.0, 10.0, 100.0]},
            cv=StratifiedKFold(3, shuffle=True, random_state=self.random_state),
            refit=False,
        )
        search.fit(*subsample(X, y, self.n_search, self.random_state))
        self.best_params_ = search.best_params_
        self.pipeline_ = clone(search.estimator).set_params(**self.best_params_).fit(X, y)
        self.classes_ = self.pipeline_.classes_
        return self

    def predict(self, X):
        """Return the label of every row."""
        return self.pipeline_.predict(X)


class ChosenBlocks(ClassifierMixin, BaseEstimator):
    """The paper's block in closed form, its settings chosen on the training rows.

    `p` and both ridges, relative to the features, are compared by the accuracy on a quarter of the
    rows of each class, after a stream of one class per task over the others. The best learns all
    rows in such a stream. More than `n_search` rows are subsampled for the search.
    """

    GRID: ClassVar = {"p": (0.5, 0.8, 0.95, 0.99), "bands__gamma": (0.001, 0.03, 1.0)}
    EPSILONS = (0.01, 0.1, 1.0)

    def __init__(self, *, n_search=5000, device="cpu", random_state=None):
        self.n_search = n_search
        self.device = device
        self.random_state = random_state

    def fit(self, X, y):
        """Choose the settings, then learn all rows."""
        X_search, y_search = subsample(X, y, self.n_search, self.random_state)
        X_learned, X_scored, y_learned, y_scored = train_test_split(
            X_search, y_search, test_size=0.25, stratify=y_search, random_state=self.random_state
        )
        best = 0.0
        for setting in ParameterGrid(self.GRID):
            model = self._model(setting).fit(X_learned, y_learned)
            for epsilon in self.EPSILONS:
                # The ridge of the pairs takes no part in learning.
                accuracy = model.set_params(epsilon=epsilon).score(X_scored, y_scored)
                if accuracy > best:
                    best = accuracy
                    self.best_params_ = {**setting, "epsilon": epsilon}
        self.model_ = self._model(self.best_params_).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        """Return the label of every row."""
        return self.model_.predict(X)

    def predict_proba(self, X):
        """Return the probabilities of the classes."""
        return self.model_.predict_proba(X)

    def _model(self, setting):
        shared = {"device": self.device, "random_state": self.random_state}
        model = FFNBClassifier.as_published(units="relative", bands__max_epochs=0, **shared)
        return model.set_params(**setting)


def subsample(X, y, n_rows, random_state):
    """Return at most so many rows, with the shares of the classes."""
    if len(X) <= n_rows:
        return X, y
    X, _, y, _ = train_test_split(X, y, train_size=n_rows, stratify=y, random_state=random_state)
    return X, y


def our_classifier(parameters):
    """Return our classifier with some parameters, and the name of its rows.

    It is an `FFNBClassifier` if a parameter is one of the bands, and otherwise an
    `IncrementalDiscriminantAnalysis`.

    Raises
    ------
    ValueError
        If none of them has such a parameter.
    """
    for name, estimator in (
        ("IDA", IncrementalDiscriminantAnalysis()),
        ("FFNB", FFNBClassifier(bands=Bands())),
    ):
        if parameters.keys() <= estimator.get_params().keys():
            words = [f"{key}={value!r}" for key, value in parameters.items()]
            return ", ".join([name, *words]), estimator.set_params(**parameters)
    raise ValueError(
        "a setting names parameters of IncrementalDiscriminantAnalysis or FFNBClassifier; got "
        f"{', '.join(parameters)}"
    )


def _ours(label, estimator, note=""):
    """A classifier of this package."""

    def build(context):
        return clone(estimator).set_params(random_state=context.seed, device=context.device)

    return Method(label, build, note)


def _ida(label, note, **parameters):
    return _ours(label, IncrementalDiscriminantAnalysis(**parameters), note)


def _joint(label, make, note, *, scaled=False, seeded=False, keeps_rows=False):
    """A classifier of scikit-learn that sees all rows at once."""

    def build(context):
        estimator = make(random_state=context.seed) if seeded else make()
        return make_pipeline(StandardScaler(), estimator) if scaled else estimator

    note = f"all rows at once; {note}" + ("; standardised columns" if scaled else "")
    return Method(f"{label}, joint", build, note, joint=True, keeps_rows=keeps_rows)


METHODS = {
    "ida": _ida("IDA", "IncrementalDiscriminantAnalysis, default parameters"),
    "ffnb": _ours("FFNB", FFNBClassifier(), "FFNBClassifier, default parameters"),
    # The default of the version that measured the pages of several layers.
    "ffnb-1": _ours(
        "FFNB, band_size=1", FFNBClassifier(band_size=1), "one trained neuron per class"
    ),
    "ffnb-1-2000": _ours(
        "FFNB, band_size=1, 2000 neurons",
        FFNBClassifier(band_size=1, shared_band_size=2000),
        "one trained neuron per class; shared_band_size=2000",
    ),
    "ida-2000": _ida("IDA, 2000 neurons", "shared_band_size=2000", shared_band_size=2000),
    "ida-ovo": _ida("IDA, pairs", "classifier='ovo'", classifier="ovo"),
    "ida-ova": _ida("IDA, one-vs-all", "classifier='ova'", classifier="ova"),
    "ida-bare": _ida("IDA, no neurons", "shared_band_size=0: the inputs alone", shared_band_size=0),
    "ida-empirical": _ida(
        "IDA, empirical priors", "classes as frequent as they were", priors="empirical"
    ),
    "published": Method(
        "the paper's block, chosen",
        lambda c: ChosenBlocks(device=c.device, random_state=c.seed),
        "as_published(units='relative', max_epochs=0), the closed form, one class per task; p, "
        "gamma and epsilon chosen on a quarter of all training rows, which is part of the seconds",
        joint=True,
    ),
    "ncm": Method("nearest class mean", lambda c: NearestClassMean(), "no setting"),
    "slda": Method("SLDA", lambda c: StreamingLDA(), "published shrinkage 1e-4 to the identity"),
    "fecam": Method(
        "FeCAM",
        lambda c: FeCAM(),
        "published alpha1 = alpha2 = 1, applied twice, and Tukey power 0.5 if the first task is "
        "non-negative",
    ),
    "ranpac": Method(
        "RanPAC",
        lambda c: RanPAC(n_components=c.width, random_state=c.seed),
        "ridge by the published hold-out of every task; the published 10,000 neurons only with "
        "--width 10000",
    ),
    "ranpac-fixed": Method(
        "RanPAC, fixed ridge",
        lambda c: RanPAC(n_components=c.width, alpha=RANPAC_ALPHA, random_state=c.seed),
        f"ridge worth {RANPAC_ALPHA:g} samples of mean square, chosen by hold-out",
    ),
    "klda": Method(
        "KLDA",
        lambda c: KernelLDA(n_components=c.width, alpha=KLDA_ALPHA, random_state=c.seed),
        "gamma = 1 / median squared distance of the first task, ridge worth "
        f"{KLDA_ALPHA:g} samples of mean variance, both factors chosen by hold-out",
    ),
    "anacp": Method(
        "AnaCP",
        lambda c: AnaCP(n_components=c.width, random_state=c.seed),
        "three heads, 100 draws per class and the ridge of 100, as published; the published 5,000 "
        "neurons only with --width 5000",
    ),
    "lda": _joint(
        "LDA",
        partial(LinearDiscriminantAnalysis, solver="lsqr", shrinkage="auto"),
        "Ledoit-Wolf shrinkage",
    ),
    # Without a ridge, a class with fewer samples than columns has no density.
    "qda": _joint(
        "QDA",
        partial(QuadraticDiscriminantAnalysis, solver="eigen", shrinkage=0.01),
        "shrinkage 0.01",
    ),
    "logistic": _joint(
        "logistic regression", partial(LogisticRegression, max_iter=300), "C=1", scaled=True
    ),
    "naive-bayes": _joint("Gaussian naive Bayes", GaussianNB, "defaults"),
    "neighbour": _joint(
        "1-NN",
        partial(KNeighborsClassifier, n_neighbors=1, algorithm="brute"),
        "nearest neighbour",
        keeps_rows=True,
    ),
    "neighbours": _joint(
        "5 neighbours", KNeighborsClassifier, "defaults", scaled=True, keeps_rows=True
    ),
    "svc": _joint("SVC", SVC, "defaults: C=1, rows as they are"),
    "forest": _joint("random forest", RandomForestClassifier, "defaults", seeded=True),
    "boosting": _joint("boosting", HistGradientBoostingClassifier, "defaults", seeded=True),
    "svm": _joint(
        "SVM-RBF",
        JointSVM,
        "gamma='scale'; rows raw or standardised and C in 1, 10, 100 chosen by 3-fold "
        "cross-validation of the training rows (of 5,000 of them if there are more), which is part "
        "of the seconds",
        seeded=True,
    ),
}


def setting(text):
    """Return the method of our classifier with parameters such as ``"rank=16, shrinkage=0.5"``.

    Raises
    ------
    ValueError
        If the text is no list of ``name=value`` with literal values and known names.
    """
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        parameters = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, ValueError, AttributeError):
        raise ValueError(f"a setting is a list of name=value; got {text!r}") from None
    if call.args or not parameters:
        raise ValueError(f"a setting is a list of name=value; got {text!r}")
    label, estimator = our_classifier(parameters)
    return _ours(label, estimator, type(estimator).__name__)


def own_method(text):
    """Return the method of an estimator such as ``"module:Class"`` or ``"module:Class(alpha=2)"``.

    It gets the seed if it has a `random_state`. Without `partial_fit` it is a joint method.

    Raises
    ------
    ValueError
        If the text does not name a class of estimators and literal values of its parameters.
    """
    place, _, call = text.partition("(")
    module, _, name = place.partition(":")
    try:
        estimator_class = getattr(importlib.import_module(module), name)
        keywords = ast.parse(f"f({call or ')'}", mode="eval").body.keywords
        estimator = estimator_class(**{one.arg: ast.literal_eval(one.value) for one in keywords})
        parameters = estimator.get_params()
    except (ImportError, AttributeError, SyntaxError, TypeError, ValueError) as error:
        raise ValueError(
            "--method takes module:Class or module:Class(name=value), an estimator of "
            f"scikit-learn's form; got {text!r} ({type(error).__name__}: {error})"
        ) from None

    def build(context):
        own = clone(estimator)
        if parameters.get("random_state", 0) is None:
            own.set_params(random_state=context.seed)
        return own

    is_joint = not hasattr(estimator, "partial_fit")
    return Method(f"{name}, joint" if is_joint else name, build, text, joint=is_joint)
