"""A short selection of the attack on every reader; python -m tests.campaigns.attack runs more."""

import pytest

from tests.campaigns.attack.__main__ import READERS, attack_reader
from tests.campaigns.attack.models import DAMAGES, ORIGINALS


# Some forged tensors make torch warn of them before they are refused.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reader", READERS)
def test_changed_files_raise_the_documented_errors(reader, tmp_path):
    # Each kind of damage to the file of each model.
    n_files = len(DAMAGES) * len(ORIGINALS)
    n_accepted = attack_reader(reader, n_files, tmp_path)
    assert n_accepted < 2 * n_files / 3
