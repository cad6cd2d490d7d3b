#!/usr/bin/env python3
"""Compare door events with metered windows and print what does not fit."""

import csv
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path


def windows(path: Path) -> dict[str, list[tuple[int, int]]]:
    """Read `parcel,start,end` lines (minutes since the epoch) into sorted windows per parcel."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as lines:
        for parcel, start, end in csv.reader(lines):
            found[parcel].append((int(start), int(end)))
    return {parcel: sorted(spans) for parcel, spans in found.items()}


def problems(doors: dict[str, list[tuple[int, int]]], meters: dict[str, list[tuple[int, int]]]) -> list[str]:
    """Name every parcel that is on one side only, overlaps itself, or runs backwards."""
    report = [f"{parcel}: not metered" for parcel in doors.keys() - meters.keys()]
    report += [f"{parcel}: metered without a door event" for parcel in meters.keys() - doors.keys()]
    for parcel, spans in meters.items():
        report += [f"{parcel}: negative window {start}..{end}" for start, end in spans if end < start]
        report += [f"{parcel}: windows overlap at {b[0]}" for a, b in pairwise(spans) if b[0] < a[1]]
    return sorted(report)


if __name__ == "__main__":
    report = problems(windows(Path(sys.argv[1])), windows(Path(sys.argv[2])))
    sys.stdout.write("".join(f"{line}\n" for line in report))
    sys.exit(1 if report else 0)
