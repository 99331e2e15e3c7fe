"""Lets every suite import tests/support.py, and gives all of them its fixtures."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from support import clean_host, folder  # noqa: E402, F401
