"""What every Python test may use."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from server_process import ServerProcess  # noqa: E402


@pytest.fixture(scope="session")
def tandem_server():
    """One server with the default model, shared by the tests that don't need one of their own."""
    with ServerProcess() as server:
        yield server
