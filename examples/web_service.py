"""
A web service that learns
=========================

A service with FastAPI: it labels rows, answers "unknown" for rows of no known class, learns labels
and corrections, and deletes rows and classes. The page "In a web service" of the user guide
explains it. To start it, with its models in the folder `models`:

.. code-block:: console

    $ python -m pip install fastapi uvicorn
    $ OMP_NUM_THREADS=1 uvicorn --factory web_service:create_app

It is one process, because each process would learn a model of its own.
"""

import copy
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fastapi import BackgroundTasks, FastAPI, HTTPException
from fastapi.responses import JSONResponse
from pydantic import BaseModel

import ffnb_sklearn
from ffnb_sklearn import IncrementalDiscriminantAnalysis, OpenSetClassifier

# Files of earlier versions that stay, for a rollback.
N_KEPT = 5

# Latest rows that the figures describe.
N_WATCHED = 1000

# Changes at a time, of which one learns and the others wait. They take threads from the readers:
# FastAPI has 40.
N_CHANGES = 10


class BusyError(RuntimeError):
    """Too many changes wait."""


def new_classifier():
    """Return the classifier of an empty service. These parameters cannot change later."""
    clf = IncrementalDiscriminantAnalysis(
        random_state=0,  # models of other sites can be merged if they have this seed too
        rank="auto",  # None if rows must be deleted without a trace; the model is larger then
        refresh=0.1,  # a new row changes its class, and all classes after a tenth more rows
    )
    return OpenSetClassifier(clf, rate=0.05, unknown_label="unknown")


@dataclass(frozen=True)
class Version:
    """A solved classifier and its number. Neither changes, so readers need no lock."""

    number: int
    clf: OpenSetClassifier

    @property
    def is_empty(self):
        """Whether there is no class."""
        return not hasattr(self.clf, "classes_")


class Service:
    """The current version in memory, and a file of each of the latest versions.

    Parameters
    ----------
    folder : str or Path
        Folder of the files. The service starts with the newest version in it.
    """

    def __init__(self, folder):
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._places = threading.Semaphore(N_CHANGES)
        files = self._files()
        if not files:
            self.current = Version(0, new_classifier())
            return
        clf = ffnb_sklearn.load(files[-1])
        self.current = solved(int(files[-1].stem), clf)

    def change(self, learn, *, erase=False):
        """Apply `learn` to a copy of the classifier, and make it the next version.

        If `erase` is true, the files of all earlier versions are deleted. An error changes nothing.
        """
        if not self._places.acquire(blocking=False):
            raise BusyError("too many changes wait; send this one again later")
        try:
            # Two changes at a time would each replace the classifier of the other.
            with self._lock:
                return self._change(learn, erase)
        finally:
            self._places.release()

    def _change(self, learn, erase):
        """Make the next version, save it, and exchange the current one."""
        clf = copy.deepcopy(self.current.clf)
        learn(clf)
        version = solved(self.current.number + 1, clf)
        ffnb_sklearn.save(clf, self._folder / f"{version.number:08d}.ffnb")
        self.current = version
        earlier = self._files()[:-1]
        for file in earlier if erase else earlier[:-N_KEPT]:
            file.unlink()
        return version

    def _files(self):
        """Return the files of the versions, the newest last."""
        return sorted(self._folder.glob("*.ffnb"))


def solved(number, clf):
    """Return a version whose first prediction is as fast as all others."""
    version = Version(number, clf)
    if not version.is_empty:
        clf.solve()
    return version


class Figures:
    """Figures of the latest predictions, for a monitoring system."""

    def __init__(self):
        self._lock = threading.Lock()
        self._scores = deque(maxlen=N_WATCHED)
        self._seconds = deque(maxlen=N_WATCHED)

    def record(self, clf, rows, seconds):
        """Add the scores of the rows of a request, and the seconds that it took."""
        scores = clf.score_samples(rows)
        with self._lock:
            self._scores.extend(scores.tolist())
            self._seconds.append(seconds)

    def report(self, version):
        """Return the figures by name."""
        with self._lock:
            scores = np.array(self._scores)
            seconds = np.array(self._seconds)
        figures = {"version": version.number, "rows_watched": len(scores)}
        if not version.is_empty:
            counts = version.clf.class_counts_.tolist()
            figures["class_counts"] = dict(zip(version.clf.classes_.tolist(), counts, strict=True))
        if len(scores):
            figures["share_of_alarms"] = float(np.mean(scores < version.clf.rate))
            figures["mean_score"] = float(scores.mean())
            median, slowest = np.quantile(1000.0 * seconds, [0.5, 0.99])
            figures["milliseconds"] = {"median": float(median), "99 %": float(slowest)}
        return figures


class Rows(BaseModel):
    """Rows of features."""

    rows: list[list[float]]


class LabelledRows(Rows):
    """Rows of features with a label each."""

    labels: list[str]


class CorrectedRows(LabelledRows):
    """Rows that were learned with wrong labels, with the right labels."""

    wrong_labels: list[str]


def create_app(folder="models"):
    """Return the application, with its versions in a folder."""
    service = Service(folder)
    figures = Figures()
    app = FastAPI(title="A classifier that learns")

    @app.exception_handler(ValueError)
    def refuse(request, error):
        """Answer 422 if the package refuses rows or labels."""
        return JSONResponse({"detail": str(error)}, status_code=422)

    @app.exception_handler(BusyError)
    def postpone(request, error):
        """Answer 503 if a change has to be sent again later."""
        return JSONResponse({"detail": str(error)}, status_code=503)

    # FastAPI runs functions without `async` in threads, so requests are answered side by side.
    @app.post("/predict")
    def predict(request: Rows, later: BackgroundTasks):
        """Return the label of each row, which may be "unknown"."""
        version = service.current
        if version.is_empty:
            raise HTTPException(503, "no class has been learned yet")
        rows = np.array(request.rows)
        start = time.perf_counter()
        labels = version.clf.predict(rows).tolist()
        seconds = time.perf_counter() - start
        # After the answer was sent.
        later.add_task(figures.record, version.clf, rows, seconds)
        return {"labels": labels, "version": version.number}

    @app.post("/labels")
    def learn(request: LabelledRows):
        """Learn rows of old or new classes."""
        rows = np.array(request.rows)
        version = service.change(lambda clf: clf.partial_fit(rows, request.labels))
        return {"version": version.number}

    @app.post("/corrections")
    def correct(request: CorrectedRows):
        """Learn the right labels of rows, and forget the wrong labels."""
        rows = np.array(request.rows)

        def replace_labels(clf):
            clf.partial_fit(rows, request.labels)
            clf.forget_samples(rows, request.wrong_labels)

        return {"version": service.change(replace_labels).number}

    @app.post("/deletions")
    def delete_rows(request: LabelledRows):
        """Forget rows that were learned with these labels, and delete the earlier files."""
        rows = np.array(request.rows)
        version = service.change(lambda clf: clf.forget_samples(rows, request.labels), erase=True)
        return {"version": version.number}

    @app.delete("/classes/{label}")
    def delete_class(label: str):
        """Forget a class, and delete the earlier files."""
        version = service.change(lambda clf: clf.forget([label]), erase=True)
        return {"version": version.number}

    @app.get("/health")
    def health():
        """Return whether the service can predict, and with which version."""
        version = service.current
        return {"status": "empty" if version.is_empty else "ready", "version": version.number}

    @app.get("/figures")
    def report():
        """Return the figures to watch."""
        return figures.report(service.current)

    return app
