"""dlt's `rest_api` source, cursor paging: the rows as it yields them, before any destination, summed in Python."""
import os

os.environ.update(RUNTIME__DLTHUB_TELEMETRY="false", RUNTIME__LOG_LEVEL="CRITICAL")
from dlt.sources.rest_api import rest_api_source  # noqa: E402
from query import BASE, KIND, PAGES, SUMMED, say  # noqa: E402

source = rest_api_source({
    "client": {"base_url": BASE},
    "resources": [{
        "name": "t",
        "endpoint": {
            "path": f"{KIND}/cursor/{PAGES}/0/plain",
            "data_selector": "data",
            "paginator": {"type": "cursor", "cursor_path": "next", "cursor_param": "cursor"},
        },
    }],
})
rows, sums = 0, [0, 0, 0]
for record in source.resources["t"]:
    rows += 1
    for place, name in enumerate(SUMMED):
        sums[place] += record[name]
say(rows, *sums)
