#!/usr/bin/env python3
"""A loopback server of taxi trips with a timestamp: a table that grows with the clock, and the same rows without it.

    python3 benches/events.py [--port N]    prints its address, serves until terminated

    /live/RATE?since=T[&cursor=I]   RATE trips a second, in the order of time, those of now included; pages of 5,000
    /second/ROWS?since=T            the trips of the second after T, as if there were no later ones
    /walk/ROWS/PAGES[?cursor=N]     PAGES pages of ROWS trips

A trip has two fields before its 20: `at`, its second as a number, and `n`, its number within the second, from 0 on. So the
rows that belong to a window are known without asking.
"""
import argparse
import json
import threading
import time
from urllib.parse import parse_qs, urlsplit

import pages
import records

PAGE = 5000
DISTINCT = 2000
SECOND = b"@@@@@@@@@@"


class Trips:
    """The trips of any second, which differ from those of another in `at` alone."""

    def __init__(self):
        kind = records.render("taxi", 0, DISTINCT)[1].splitlines()
        self.distinct = [line[1:] for line in kind]
        self.made, self.lock = {}, threading.Lock()

    def of(self, rate):
        with self.lock:
            if rate not in self.made:
                self.made[rate] = [b'{"at":%s,"n":%d,%s' % (SECOND, n, self.distinct[n % DISTINCT])
                                   for n in range(rate)]
            return self.made[rate]

    def block(self, rate, first, last):
        """Those from the place `first` up to `last`: a place is the second times the rate, and the number within it."""
        parts = []
        while first < last:
            second, n = divmod(first, rate)
            count = min(last - first, rate - n)
            parts.append(b",".join(self.of(rate)[n:n + count]).replace(SECOND, b"%d" % second))
            first += count
        return b",".join(parts)


def reply(trips, target):
    """The headers, the parts of the body, and the wait of one request."""
    url = urlsplit(target)
    query = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
    style, rate, *more = url.path.strip("/").split("/")
    rate, following = int(rate), None
    if style == "live":
        first = query["cursor"] if "cursor" in query else (query["since"] + 1) * rate
        there = int(time.time() * rate)
        last = min(first + PAGE, there)
        following = last if last < there else None
    elif style == "second":
        first = (query["since"] + 1) * rate
        last = first + rate
    elif style == "walk":
        page = query.get("cursor", 0)
        first, last = page * rate, (page + 1) * rate
        following = page + 1 if page + 1 < int(more[0]) else None
    else:
        raise pages.Refused(f"no style {style}")
    tail = f'],"next":{json.dumps(following and str(following))}}}'.encode()
    return [], [pages.HEAD, trips.block(rate, first, last), tail], 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    trips = Trips()
    pages.listen(lambda target, _: reply(trips, target), args.port)


if __name__ == "__main__":
    main()
