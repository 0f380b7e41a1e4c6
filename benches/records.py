"""Records with known totals: taxi trips and line items of 20 fields, clean and messy, rendered once as JSON.

What a table must hold is worked out here, from the values before they were rendered, and never by parsing the text.
"""
import json
import random
from datetime import datetime, timedelta

# The fields of each kind in the order of a clean record, and the type they are declared as.
COLUMNS = {
    "taxi": {
        "trip_id": "int64", "vendor_id": "int32", "pickup_at": "timestamp", "dropoff_at": "timestamp",
        "passenger_count": "int32", "trip_distance": "float64", "rate_code": "int32", "store_and_fwd": "string",
        "pickup_zone": "int32", "dropoff_zone": "int32", "payment_type": "int32", "fare_amount": "float64",
        "extra": "float64", "mta_tax": "float64", "tip_amount": "float64", "tolls_amount": "float64",
        "improvement_surcharge": "float64", "total_amount": "float64", "congestion_surcharge": "float64",
        "airport_fee": "float64",
    },
    "lineitem": {
        "orderkey": "int64", "partkey": "int32", "suppkey": "int32", "linenumber": "int32", "quantity": "int32",
        "extendedprice": "float64", "discount": "float64", "tax": "float64", "returnflag": "string",
        "linestatus": "string", "shipdate": "date", "commitdate": "date", "receiptdate": "date",
        "shipinstruct": "string", "shipmode": "string", "comment": "string", "clerk": "string",
        "priority": "string", "gift": "boolean", "updated_at": "timestamp",
    },
}
# The three columns that are summed: an id, a small integer, and an amount that is a whole number of cents.
SUMMED = {
    "taxi": ("trip_id", "passenger_count", "total_amount"),
    "lineitem": ("orderkey", "quantity", "extendedprice"),
}
KINDS = [kind + variant for kind in COLUMNS for variant in ("", "-messy")]
EPOCH = datetime(2024, 1, 1)
WORDS = "carefully final deposits détecté sleep \"quickly\" among the ironic pinto beans — blithely regular".split()


def stamp(rng):
    return (EPOCH + timedelta(seconds=rng.randrange(366 * 86400))).isoformat() + "Z"


def day(rng):
    return (EPOCH + timedelta(days=rng.randrange(366))).date().isoformat()


def taxi(rng, at):
    """A trip, with its total in cents."""
    fare, tip, tolls = rng.randrange(300, 9000), rng.randrange(0, 1500), rng.choice((0, 0, 0, 694))
    total = fare + tip + tolls + 100 + 50 + 100 + 250
    return {
        "trip_id": 4_000_000_000_000 + at * 7 + rng.randrange(7), "vendor_id": rng.randrange(1, 3),
        "pickup_at": stamp(rng), "dropoff_at": stamp(rng), "passenger_count": rng.randrange(1, 7),
        "trip_distance": rng.randrange(10, 4000) / 100, "rate_code": rng.randrange(1, 6),
        "store_and_fwd": rng.choice("NY"), "pickup_zone": rng.randrange(1, 264), "dropoff_zone": rng.randrange(1, 264),
        "payment_type": rng.randrange(1, 5), "fare_amount": fare / 100, "extra": 1.0, "mta_tax": 0.5,
        "tip_amount": tip / 100, "tolls_amount": tolls / 100, "improvement_surcharge": 1.0,
        "total_amount": total / 100, "congestion_surcharge": 2.5, "airport_fee": rng.choice((0.0, 1.75)),
    }, total


def lineitem(rng, at):
    """A line of an order, with its price in cents."""
    quantity = rng.randrange(1, 51)
    price = quantity * rng.randrange(90_000, 200_000)
    return {
        "orderkey": 600_000_000_000 + at * 32 + rng.randrange(32), "partkey": rng.randrange(1, 200_000),
        "suppkey": rng.randrange(1, 10_000), "linenumber": rng.randrange(1, 8), "quantity": quantity,
        "extendedprice": price / 100, "discount": rng.randrange(0, 11) / 100, "tax": rng.randrange(0, 9) / 100,
        "returnflag": rng.choice("ANR"), "linestatus": rng.choice("FO"), "shipdate": day(rng),
        "commitdate": day(rng), "receiptdate": day(rng),
        "shipinstruct": rng.choice(("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")),
        "shipmode": rng.choice(("TRUCK", "MAIL", "REG AIR", "SHIP", "FOB")),
        "comment": " ".join(rng.choices(WORDS, k=rng.randrange(2, 7))), "clerk": f"Clerk#{rng.randrange(1000):09}",
        "priority": rng.choice(("1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW")), "gift": rng.random() < 0.3,
        "updated_at": stamp(rng),
    }, price


def spoil(rng, record, values):
    """Makes a record what real APIs send; `values` (id, small, cents) follow what a column of the type then holds."""
    names, types = list(record), COLUMNS["taxi" if "trip_id" in record else "lineitem"]
    number, small, amount = SUMMED["taxi" if "trip_id" in record else "lineitem"]
    flaw = rng.randrange(20)
    if flaw in (0, 1):  # A null, or no such field.
        name = rng.choice(names) if flaw else rng.choice((number, small, amount))
        values[name] = None
        if rng.random() < 0.5:
            record[name] = None
        else:
            del record[name]
    elif flaw == 2:  # Fields that nobody declared.
        record["_links"] = {"self": {"href": f"/records/{rng.randrange(10**6)}"}, "tags": ["a", 1, None, {"b": [[]]}]}
        record["note"] = "\u00e9\n\t\\"
    elif flaw == 3:  # Numbers as text.
        for name in (number, small, amount):
            record[name] = str(record[name])
    elif flaw == 4:  # An integer with a point: one reading.
        record[small] = float(record[small])
    elif flaw == 5:  # A fraction where an integer belongs: none.
        record[small] = record[small] + 0.5
        values[small] = None
    elif flaw == 6:  # Instants and days that are none.
        record[next(name for name, kind in types.items() if kind == "timestamp")] = "2024-13-45T99:00:00Z"
    elif flaw == 7:  # An id that no double holds.
        record[number] = values[number] = 9_007_199_254_740_993 + 2 * rng.randrange(2**40)
    elif flaw == 8:  # An id that no 64 bits hold.
        record[number] = 2**64 + rng.randrange(2**40)
        values[number] = None
    elif flaw == 9:  # A text where a number belongs.
        record[amount] = "n/a"
        values[amount] = None
    elif flaw == 10:  # Another order of the fields.
        rng.shuffle(names)
        return {name: record[name] for name in names}
    return record


def render(kind, page, records):
    """One page: its records as JSON between commas, the same as lines, and (count, sum, sum, sum of cents)."""
    name, _, messy = kind.partition("-")
    rng, make = random.Random(f"{kind} {page}"), {"taxi": taxi, "lineitem": lineitem}[name]
    number, small, amount = SUMMED[name]
    rows, sums = [], [0, 0, 0]
    for at in range(page * records, (page + 1) * records):
        record, cents = make(rng, at)
        values = {number: record[number], small: record[small], amount: cents}
        if messy:
            record = spoil(rng, record, values)
        for place, column in enumerate((number, small, amount)):
            sums[place] += values[column] or 0
        rows.append(json.dumps(record, separators=(",", ":"), ensure_ascii=False))
    return ",".join(rows).encode(), ("\n".join(rows) + "\n").encode(), (len(rows), *sums)
