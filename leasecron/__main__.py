"""``python -m leasecron``."""

from leasecron.cli import main

if __name__ == "__main__":
    main(prog_name="leasecron")
