"""What every Python peer is asked: `python PEER.py BASE KIND PAGES COLUMNS`; it prints rows and three sums as JSON."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import records  # noqa: E402

BASE, KIND, PAGES, WIDTH = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
SUMMED = records.SUMMED[KIND]
TYPES = {name: of for name, of in records.COLUMNS[KIND].items() if WIDTH == "all" or name in SUMMED}
PER_PAGE = 5000


def urls():
    """All pages, for those who cannot page."""
    return [f"{BASE}/{KIND}/offset/{PAGES}/0/plain?offset={page * PER_PAGE}&limit={PER_PAGE}" for page in range(PAGES)]


def say(rows, number, small, amount):
    """`amount` in units."""
    print(json.dumps({"rows": int(rows), "sums": [int(number), int(small), round(float(amount) * 100)]}))
