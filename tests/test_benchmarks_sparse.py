"""The benchmark of sparse rows: its documents, and a quick run."""

import numpy as np
import pytest
from scipy import sparse

from ffnb_sklearn._sparse import RandomProjection

SMALL = ["--documents", "300", "--subset", "100", "--test", "50", "--words", "3000"]
SMALL += ["--distinct", "20", "--classes", "4", "--tasks", "2", "--shares", "0.5"]


def test_documents_have_distinct_words_of_their_class_and_of_all(bench):
    documents = bench("_documents").Documents(3, 5000, 0.4)
    X, y = documents.draw(200, 30, np.random.default_rng(0))
    assert X.has_canonical_format
    assert np.diff(X.indptr).tolist() == 200 * [30]
    assert sparse.linalg.norm(X, axis=1) == pytest.approx(np.ones(200), rel=1e-6)
    words = X.indices.reshape(200, 30)
    own = [np.isin(words[row], documents._own[label]).mean() for row, label in enumerate(y)]
    # Words of the class repeat more often than others, and count once.
    assert 0.25 < np.mean(own) < 0.5
    again, _ = documents.draw(200, 30, np.random.default_rng(0))
    assert (again != X).nnz == 0


def test_a_quick_run_prints_a_row_per_method_and_writes_both_files(
    bench, capsys, tmp_path, monkeypatch
):
    benchmark, paths = bench("sparse_rows"), [tmp_path / "sparse.md", tmp_path / "sparse.csv"]
    # Processes of their own only serve the measurement of memory.
    monkeypatch.setattr(benchmark, "alone", lambda run, *arguments: run(*arguments))
    benchmark.main([*SMALL, "--out", *map(str, paths)])

    printed = capsys.readouterr().out
    assert paths[0].read_text(encoding="utf-8") == printed
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| 0.50 |")]
    assert [row[2] for row in rows] == [*benchmark.STREAMS, *benchmark.SUBSETS]
    accuracies = {row[2]: float(row[3]) for row in rows}
    assert min(accuracies[name] for name in benchmark.SUBSETS) > 80
    assert len(paths[1].read_text(encoding="utf-8").splitlines()) == 1 + len(rows)


def test_projected_rows_are_those_of_the_classifier(bench):
    X = sparse.random_array((5, 3000), density=0.01, rng=np.random.default_rng(0), format="csr")
    converted = bench("sparse_rows").converted
    rows = converted(X, 1000, True)
    assert rows.shape == (5, 1000)
    assert rows == pytest.approx(X.toarray() @ RandomProjection(3000, 0, 1000).matrix.toarray())
    assert (converted(X, 1000, False).toarray() == rows).all()
    assert (converted(X, None, True) == X.toarray()).all()
