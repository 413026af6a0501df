"""The command ``python -m tests.chaos``, from the root of the repository."""

import sys
from pathlib import Path

# So that this package and ``support`` are found under the names that tests use.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from chaos.command import main

if __name__ == "__main__":
    sys.exit(main())
