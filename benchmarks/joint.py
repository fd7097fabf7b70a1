"""Joint training on all classes at once: what learning task after task is compared with."""

from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


class JointSVM(ClassifierMixin, BaseEstimator):
    """Support vector machine with a Gaussian kernel, its setting chosen on the training rows.

    Raw or standardised rows and C = 1, 10, 100 are compared by 3-fold cross-validation; the best
    is fitted to all rows. The width of the kernel is scikit-learn's ``gamma="scale"``.

    Parameters
    ----------
    n_search : int, default=5000
        Rows of the search; larger training sets are subsampled for it, never for the final fit.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds and of the subsample.
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
        search.fit(*self._subsample(X, y))
        self.best_params_ = search.best_params_
        self.pipeline_ = clone(search.estimator).set_params(**self.best_params_).fit(X, y)
        self.classes_ = self.pipeline_.classes_
        return self

    def predict(self, X):
        """Label of every row."""
        return self.pipeline_.predict(X)

    def _subsample(self, X, y):
        if len(X) <= self.n_search:
            return X, y
        X, _, y, _ = train_test_split(
            X, y, train_size=self.n_search, stratify=y, random_state=self.random_state
        )
        return X, y
