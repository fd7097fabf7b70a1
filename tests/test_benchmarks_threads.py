"""The benchmark of threads: a quick run."""


def test_quick_run_times_each_step_alone_and_beside_busy_processes(run_script):
    printed, records = run_script("threads", "--quick")

    rows = [line for line in printed.splitlines() if line.startswith("| digits")]
    assert len(rows) == len(records) == 6
    assert len({(one["step"], one["busy"]) for one in records}) == 6
    assert all(float(one["seconds"]) > 0 and float(one["ratio"]) > 0 for one in records)
