"""What the tests that scan our documents share: their argument and their verdict."""
import pathlib
import sys


def source_root():
    return pathlib.Path(sys.argv[1]).resolve()


def finish(faults, summary, number, least, expected):
    """Prints the faults and ends with status 1 if there are any, or if fewer than `least` places were read: a scanner
    that reads nothing finds nothing."""
    print("\n".join(faults))
    print(summary)
    if number < least:
        sys.exit(f"only {number} {expected}")
    sys.exit(1 if faults else 0)
