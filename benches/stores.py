"""Stores on loopback, as the tests start them: a local disk, Moto for S3, and an HDFS of one NameNode and one DataNode."""
import contextlib
import json
import os
import random
import socket
import subprocess
import time
import urllib.request

import harness

APPS = os.path.join(harness.HERE, "..", "tests", "apps")
PATIENCE = 60


class Store:
    """Where directories stand, and the environment that opens them."""

    def __init__(self, name, root, make=lambda name: None, **settings):
        self.name, self.root, self.make, self.settings = name, root, make, settings

    def place(self, name):
        """A new directory; on S3 a bucket, since Moto's answers take longer the more a bucket holds."""
        self.make(name)
        return f"{self.root}/{name}"

    def env(self, folder):
        """The environment of a reader, whose `core-site.xml` is put into the folder."""
        os.makedirs(folder)
        write_xml(os.path.join(folder, "core-site.xml"), self.settings)
        own = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "HADOOP_"))}
        return {**own, "HADOOP_CONF_DIR": folder}


def write_xml(path, settings):
    lines = [f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items()]
    with open(path, "w", encoding="utf-8") as handle:
        handle.write("<configuration>\n" + "\n".join(lines) + "\n</configuration>\n")


def missing(part):
    """Why a part of `scripts/setup` is not there, or nothing."""
    if os.path.exists(os.path.join(harness.CACHE, "stamps", part)):
        return None
    with contextlib.suppress(OSError), open(os.path.join(harness.CACHE, "missing", part), encoding="utf-8") as said:
        return said.read().strip()
    return "scripts/setup has not run"


@contextlib.contextmanager
def local(folder):
    yield Store("local disk", os.path.join(folder, "local"))


@contextlib.contextmanager
def s3(_):
    python = os.path.join(harness.CACHE, "moto", "bin", "python")
    with harness.Child(python, os.path.join(APPS, "s3.py")) as moto:
        signed = "AWS4-HMAC-SHA256 Credential=test/20130101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"

        def make(bucket):
            request = urllib.request.Request(f"{moto.base}/{bucket}", method="PUT", headers={"Authorization": signed})
            urllib.request.urlopen(request).read()

        keys = {"fs.s3a.endpoint": moto.base, "fs.s3a.endpoint.region": "us-east-1",
                "fs.s3a.access.key": "test", "fs.s3a.secret.key": "test"}
        yield Store("S3 (Moto)", "s3a:/", make, **keys)


@contextlib.contextmanager
def hdfs(folder):
    """Every file has one replica. What the servers say goes to logs in the folder."""
    conf, port = os.path.join(folder, "conf"), lasting_port()
    for each in ("tmp", "conf/webapps/hdfs", "conf/webapps/datanode", "conf/webapps/static"):
        os.makedirs(os.path.join(folder, each))
    url = f"hdfs://127.0.0.1:{port}"
    write_xml(os.path.join(conf, "core-site.xml"), {"fs.defaultFS": url, "hadoop.tmp.dir": f"{folder}/tmp"})
    write_xml(os.path.join(conf, "hdfs-site.xml"), {
        "dfs.namenode.name.dir": f"file://{folder}/name", "dfs.datanode.data.dir": f"file://{folder}/data",
        "dfs.namenode.http-address": "127.0.0.1:0", "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0", "dfs.datanode.ipc.address": "127.0.0.1:0",
        "dfs.datanode.hostname": "127.0.0.1", "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.replication": "1", "dfs.namenode.safemode.extension": "0", "dfs.datanode.du.reserved": "0",
    })
    server = "org.apache.hadoop.hdfs.server"
    subprocess.run(java(folder, f"{server}.namenode.NameNode", "-format", "-nonInteractive"), check=True, cwd=folder,
                   env=bare(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with contextlib.ExitStack() as running:
        logs = []
        for name in ("namenode.NameNode", "datanode.DataNode"):
            logs.append(os.path.join(folder, f"{name}.log"))
            out = running.enter_context(open(logs[-1], "wb"))
            child = subprocess.Popen(java(folder, f"{server}.{name}"), stdout=out, stderr=out, cwd=folder, env=bare())
            running.callback(lambda child=child: (child.terminate(), child.wait()))
        http = said_port(logs[0], "Jetty bound to port ")
        asked = f"http://127.0.0.1:{http}/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo"

        def ready():
            with urllib.request.urlopen(asked, timeout=5) as answer:
                beans = json.load(answer)["beans"]
            return any(not bean["Safemode"] and json.loads(bean["LiveNodes"]) for bean in beans)

        wait_for("the DataNode", ready)
        yield Store("HDFS", url)


def java(folder, name, *args):
    jars = os.path.join(harness.CACHE, "hadoop")
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.net.preferIPv4Stack=true",
            f"-Djava.io.tmpdir={folder}/tmp", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
            "-Dorg.slf4j.simpleLogger.log.org.apache.hadoop.hdfs.server.datanode.fsdataset=warn",
            "-cp", f"{folder}/conf:{jars}/*", name, *args]


def bare():
    """The environment without what a person has set for a cluster of their own."""
    return {key: value for key, value in os.environ.items() if not key.startswith("HADOOP_") and key != "CLASSPATH"}


def lasting_port():
    """Below those that the system hands out."""
    for port in random.sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise SystemExit("no free port")


def said_port(log, text):
    """The number that follows the text in a log, once its line is whole."""
    def look():
        with open(log, encoding="utf-8", errors="replace") as handle:
            before, found, after = handle.read().partition(text)
        return int(after.partition("\n")[0]) if found and "\n" in after else None
    return wait_for(f"a port in {log}", look)


def wait_for(what, look):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if found := look():
                return found
        time.sleep(0.05)
    raise SystemExit(f"waited in vain for {what}")


# Each with the part of `scripts/setup` that it needs.
ALL = {"local": (local, None), "s3": (s3, "moto"), "hdfs": (hdfs, "hadoop")}
