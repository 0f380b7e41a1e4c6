"""Configuration, checkpoint and receipts in S3: all that a cluster's hosts have in common."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from place import Place, at, records

# A session of its own, since stores take their credentials from the environment that it is born with.
PROGRAM = """
import sys
import restmark.spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(restmark.spark.RestmarkSource)
with restmark.spark.checkpointed(spark) as outcomes:
    events = spark.read.format("restmark").options(config="s3a://lake/spark-conf/api.conf", table="events").load()
    events.write.parquet(sys.argv[1])
print(spark.read.parquet(sys.argv[1]).count(), outcomes[0].position["value"])
print(restmark.open("s3a://lake/spark-conf/api.conf").table("events").position["value"])
"""


def test_r09_a_block_commits_on_s3(place: Place, s3: str, tmp_path: Path) -> None:
    place.api.tables["events"] = records(1, 250)
    place.table("events", checkpoint={"path": "s3a://lake/spark"})
    put = urllib.request.Request(
        f"{s3}/lake/spark-conf/api.conf", place.config.read_bytes(), {"Content-Type": "text/plain"}, method="PUT"
    )
    with urllib.request.urlopen(put):
        pass
    variables = os.environ | {
        "API_TOKEN": "any",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": s3,
        "AWS_REGION": "us-east-1",
        "AWS_SECRET_ACCESS_KEY": "any-key",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "out")], env=variables, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["250", at(250), at(250)]
    with urllib.request.urlopen(f"{s3}/lake?list-type=2&prefix=spark/") as listed:
        assert listed.read().count(b"<Key>") == 1, "the receipts are gone"
