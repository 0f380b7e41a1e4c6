"""Stores on loopback that benchmarks write to: a local folder, Moto for S3, and HDFS with three DataNodes."""
import os
import re
import subprocess
import tempfile
import time
import urllib.request

from harness import CACHE, HERE

APPS = os.path.join(HERE, "..", "tests", "apps")
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
PATIENCE = 60


class Local:
    """A folder that goes with the block."""
    name = "local disk"
    properties = ""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)


class S3(Local):
    """Moto, which answers one request at a time."""
    name = "S3 (Moto)"

    def __enter__(self):
        command = [os.path.join(CACHE, "moto", "bin", "python"), os.path.join(APPS, "s3.py")]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.base = self.child.stdout.readline().strip()
        make = urllib.request.Request(f"{self.base}/bench", method="PUT", headers={
            "Authorization": "AWS4-HMAC-SHA256 Credential=test/20130101/us-east-1/s3/aws4_request, "
                             "SignedHeaders=host, Signature=0"})
        urllib.request.urlopen(make).close()
        self.properties = (f'hadoop {{ "fs.s3a.endpoint" = "{self.base}", "fs.s3a.access.key" = "AKIDTEST", '
                           '"fs.s3a.secret.key" = "made-up-secret" }')
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()

    def path(self, name):
        return f"s3a://bench/{name}"


class Hdfs(Local):
    """A NameNode and three DataNodes, each a process of its own."""
    name = "HDFS, three replicas"

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.children = []
        home = self.folder.name
        for name in ("logs", "tmp", "conf/webapps/hdfs", "conf/webapps/datanode", "conf/webapps/static"):
            os.makedirs(os.path.join(home, name))
        self.port = free_port()
        self.write("core-site.xml", {"fs.defaultFS": self.path("").rstrip("/"), "hadoop.tmp.dir": f"{home}/tmp"})
        self.write("hdfs-site.xml", {
            "dfs.namenode.name.dir": f"file://{home}/name", "dfs.namenode.http-address": "127.0.0.1:0",
            "dfs.datanode.address": "127.0.0.1:0", "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0", "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false", "dfs.replication": "3",
            "dfs.namenode.safemode.extension": "0", "dfs.heartbeat.interval": "1",
            "dfs.datanode.du.reserved": "0", "dfs.datanode.scan.period.hours": "-1"})
        subprocess.run(self.java(NAMENODE) + ["-format", "-nonInteractive"], check=True, capture_output=True)
        self.start("name", self.java(NAMENODE), "Jetty bound to port ")
        for number in range(3):
            data = self.java(DATANODE) + ["-D", f"dfs.datanode.data.dir=file://{home}/data{number}"]
            self.start(f"data{number}", data, "Successfully registered with NN|Opened streaming server")
        time.sleep(3)  # Until the NameNode has heard of all three.
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.kill()
            child.wait()
        self.folder.cleanup()

    def path(self, name):
        return f"hdfs://127.0.0.1:{self.port}/{name}"

    def java(self, main):
        home = self.folder.name
        jars = os.path.join(CACHE, "hadoop", "*")
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true",
                f"-Djava.io.tmpdir={home}/tmp", "-cp", f"{home}/conf:{jars}", main]

    def write(self, name, settings):
        lines = "".join(f"<property><name>{key}</name><value>{value}</value></property>\n"
                        for key, value in settings.items())
        with open(os.path.join(self.folder.name, "conf", name), "w", encoding="utf-8") as handle:
            handle.write(f"<configuration>\n{lines}</configuration>\n")

    def start(self, name, command, ready):
        """Starts a node and waits until its log says that it is there."""
        log = os.path.join(self.folder.name, "logs", name)
        with open(log, "w", encoding="utf-8") as handle:
            self.children.append(subprocess.Popen(command, stdout=handle, stderr=handle))
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE:
            with open(log, encoding="utf-8", errors="replace") as handle:
                if re.search(ready, handle.read()):
                    return
            time.sleep(0.1)
        raise SystemExit(f"{name} did not start, see {log}")


def free_port():
    import socket
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
