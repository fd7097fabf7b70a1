"""The service of examples/web_service.py, asked through FastAPI and without a socket."""

import asyncio
import importlib.util
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "web_service.py"

# Scores of left-out samples keep a trace, as the page on deletion explains.
pytestmark = pytest.mark.filterwarnings("ignore:.*keep a trace of the:UserWarning")


def rows_and_names():
    """Return training and test rows of the digits, with text labels."""
    X, y = load_digits(return_X_y=True)
    names = np.array([f"digit {label}" for label in range(10)])[y]
    return train_test_split(X, names, test_size=0.25, random_state=0)


X, X_test, y, y_test = rows_and_names()
is_new = np.isin(y, ["digit 8", "digit 9"])
is_new_test = np.isin(y_test, ["digit 8", "digit 9"])


@pytest.fixture(scope="module")
def program():
    """Import the example."""
    spec = importlib.util.spec_from_file_location("web_service_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Client:
    """Requests to a new application on a folder."""

    def __init__(self, program, folder):
        self._app = program.create_app(folder)

    def send(self, method, path, content=None):
        """Return the status and the content of the answer."""

        async def send():
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, json=content)

        answer = asyncio.run(send())
        return answer.status_code, answer.json()

    def post(self, path, rows, **others):
        """Post rows, with labels if there are any; return the content of the answer."""
        lists = {name: np.asarray(value).tolist() for name, value in others.items()}
        status, content = self.send("POST", path, {"rows": rows.tolist(), **lists})
        assert status == 200, content
        return content

    def get(self, path):
        """Return the content of the answer."""
        status, content = self.send("GET", path)
        assert status == 200
        return content

    def labels(self, rows):
        """Return the predicted labels."""
        return np.array(self.post("/predict", rows)["labels"])


@pytest.fixture(scope="module")
def eight_digits(program, tmp_path_factory):
    """Return the file of a service that has learned eight digits."""
    folder = tmp_path_factory.mktemp("eight")
    Client(program, folder).post("/labels", X[~is_new], labels=y[~is_new])
    (file,) = folder.iterdir()
    return file


@pytest.fixture
def client(program, eight_digits, tmp_path):
    """Return a client of a service that starts with eight digits."""
    shutil.copy(eight_digits, tmp_path)
    return Client(program, tmp_path)


@pytest.fixture(scope="module")
def settled(program, tmp_path_factory):
    """Return a client that no test changes, with the folder of its files."""
    folder = tmp_path_factory.mktemp("models")
    client = Client(program, folder)
    client.post("/labels", X[:300], labels=y[:300])
    return client, folder


def files(folder):
    """Return the names of the files of a service."""
    return sorted(path.name for path in folder.iterdir())


def test_an_empty_service_is_healthy_and_learns_its_first_class(program, tmp_path):
    client = Client(program, tmp_path)
    assert client.get("/health") == {"status": "empty", "version": 0}
    assert client.get("/figures") == {"version": 0, "rows_watched": 0}
    status, content = client.send("POST", "/predict", {"rows": X[:1].tolist()})
    assert status == 503
    assert content["detail"] == "no class has been learned yet"
    assert client.post("/labels", X[:1], labels=y[:1]) == {"version": 1}
    assert client.get("/health") == {"status": "ready", "version": 1}
    assert client.labels(X[:1]) == y[0]


def test_rows_of_an_unknown_class_are_unknown_until_they_are_learned(client):
    labels = client.labels(X_test)
    assert np.mean(labels[is_new_test] == "unknown") > 0.85
    assert np.mean(labels[~is_new_test] == y_test[~is_new_test]) > 0.9
    assert client.post("/labels", X[is_new], labels=y[is_new]) == {"version": 2}
    assert np.mean(client.labels(X_test) == y_test) > 0.9


def test_figures_describe_the_latest_rows(client):
    known = X_test[~is_new_test]
    labels = client.labels(known)
    figures = client.get("/figures")
    assert figures["rows_watched"] == len(known)
    assert figures["share_of_alarms"] == pytest.approx(np.mean(labels == "unknown"))
    assert figures["share_of_alarms"] < 0.1
    # The scores of rows that are like the learned rows are spread over the whole interval.
    assert 0.4 < figures["mean_score"] < 0.6
    assert 0.0 < figures["milliseconds"]["median"] <= figures["milliseconds"]["99 %"]
    assert figures["class_counts"]["digit 3"] == np.sum(y == "digit 3")


def test_drift_lowers_the_mean_score_before_there_are_many_alarms(client, program):
    known = X_test[~is_new_test]
    # The window then holds these rows alone.
    n_requests = -(-program.N_WATCHED // len(known))
    found = []
    for blur in (0.0, 0.2, 0.5):
        blurred = (1.0 - blur) * known + blur * np.roll(known, 1, axis=1)
        for _ in range(n_requests):
            client.labels(blurred)
        found.append(client.get("/figures"))
    before, early, late = found
    assert early["rows_watched"] == program.N_WATCHED
    assert early["mean_score"] < before["mean_score"] - 0.08
    assert early["share_of_alarms"] < before["share_of_alarms"] + 0.05
    assert late["mean_score"] < 0.1
    assert late["share_of_alarms"] > 0.5


def test_a_correction_moves_rows_to_their_class(client):
    rows = X[is_new][:30]
    names = y[is_new][:30]
    client.post("/labels", rows, labels=["digit 0"] * 30)
    counts = client.get("/figures")["class_counts"]
    assert counts["digit 0"] == np.sum(y == "digit 0") + 30
    client.post("/corrections", rows, labels=names, wrong_labels=["digit 0"] * 30)
    counts = client.get("/figures")["class_counts"]
    assert counts["digit 0"] == np.sum(y == "digit 0")
    assert counts["digit 8"] + counts["digit 9"] == 30
    assert np.mean(client.labels(rows) == names) > 0.8


def test_deleted_rows_and_classes_are_in_no_file(client, program, tmp_path):
    client.post("/labels", X[is_new], labels=y[is_new])
    assert files(tmp_path) == ["00000001.ffnb", "00000002.ffnb"]
    gone = np.flatnonzero(y == "digit 4")[:50]
    client.post("/deletions", X[gone], labels=y[gone])
    assert files(tmp_path) == ["00000003.ffnb"]
    assert client.get("/figures")["class_counts"]["digit 4"] == np.sum(y == "digit 4") - 50
    assert client.send("DELETE", "/classes/digit 5") == (200, {"version": 4})
    assert files(tmp_path) == ["00000004.ffnb"]
    assert "digit 5" not in client.get("/figures")["class_counts"]
    assert "digit 5" not in client.labels(X_test)
    assert "digit 5" not in Client(program, tmp_path).labels(X_test)


def test_a_service_without_its_last_class_is_empty_also_after_a_restart(program, tmp_path):
    client = Client(program, tmp_path)
    client.post("/labels", X[:1], labels=y[:1])
    assert client.send("DELETE", f"/classes/{y[0]}") == (200, {"version": 2})
    for service in (client, Client(program, tmp_path)):
        assert service.get("/health") == {"status": "empty", "version": 2}


def test_a_restarted_service_goes_on_from_the_newest_file(client, program, tmp_path):
    n_changes = program.N_KEPT + 2
    for row in range(n_changes):
        client.post("/labels", X[is_new][[row]], labels=y[is_new][[row]])
    newest = n_changes + 1
    kept = range(newest - program.N_KEPT, newest + 1)
    assert files(tmp_path) == [f"{number:08d}.ffnb" for number in kept]
    restarted = Client(program, tmp_path)
    assert restarted.get("/health") == {"status": "ready", "version": newest}
    assert restarted.post("/predict", X_test) == client.post("/predict", X_test)
    assert restarted.post("/labels", X[:1], labels=y[:1]) == {"version": newest + 1}


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("/labels", {"rows": [[1.0, 2.0]], "labels": ["new"]}, "X has 2 features"),
        ("/labels", {"rows": [[1.0], [1.0, 2.0]], "labels": ["a", "b"]}, "inhomogeneous"),
        ("/labels", {"rows": X[:1].tolist(), "labels": ["unknown"]}, "unknown_label must differ"),
        ("/labels", {"rows": X[:1].tolist(), "labels": ["a", "b"]}, "inconsistent numbers"),
        ("/labels", {"rows": [["one"]], "labels": ["a"]}, "valid number"),
        ("/deletions", {"rows": X[:1].tolist(), "labels": ["nobody"]}, "that were learned"),
        ("/deletions", {"rows": (1e3 * X[:1]).tolist(), "labels": y[:1].tolist()}, "subtracted"),
        (
            "/corrections",
            {"rows": X[:1].tolist(), "labels": ["new"], "wrong_labels": ["nobody"]},
            "that were learned",
        ),
        ("/predict", {"rows": []}, "2D array"),
    ],
)
def test_a_refused_request_changes_nothing(settled, path, content, message):
    client, folder = settled
    before = client.post("/predict", X_test[:50])
    status, answer = client.send("POST", path, content)
    assert status == 422
    assert message in str(answer["detail"])
    assert client.post("/predict", X_test[:50]) == before
    assert files(folder) == ["00000001.ffnb"]


def test_readers_have_the_old_version_until_the_new_one_is_solved_and_saved(
    program, eight_digits, tmp_path
):
    shutil.copy(eight_digits, tmp_path)
    service = program.Service(tmp_path)
    old = service.current
    expected = old.clf.predict(X_test)
    seen = []

    def learn(clf):
        clf.partial_fit(X[is_new], y[is_new])
        seen.append(service.current)
        np.testing.assert_array_equal(service.current.clf.predict(X_test), expected)

    new = service.change(learn)
    assert seen == [old]
    assert service.current is new
    assert (old.number, new.number) == (1, 2)
    # Also after the exchange, for requests that began before.
    np.testing.assert_array_equal(old.clf.predict(X_test), expected)
    assert "digit 9" in new.clf.predict(X_test)


def test_no_change_is_lost_if_several_arrive_at_once(program, tmp_path):
    service = program.Service(tmp_path)

    def learn(label):
        rows = y == label
        return service.change(lambda clf: clf.partial_fit(X[rows], y[rows])).number

    labels = np.unique(y)[:6]
    with ThreadPoolExecutor(4) as pool:
        numbers = list(pool.map(learn, labels))
    assert sorted(numbers) == list(range(1, 7))
    np.testing.assert_array_equal(service.current.clf.classes_, labels)
    assert service.current.clf.class_counts_.sum() == np.isin(y, labels).sum()


def test_a_change_is_refused_if_too_many_wait(program, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "N_CHANGES", 1)
    service = program.Service(tmp_path)

    def learn(clf):
        with pytest.raises(program.BusyError, match="too many changes wait"):
            service.change(learn)
        clf.partial_fit(X[:20], y[:20])

    assert service.change(learn).number == 1
    assert service.change(lambda clf: clf.partial_fit(X[20:40], y[20:40])).number == 2
