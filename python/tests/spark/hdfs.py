"""A small HDFS on loopback: a NameNode and one DataNode."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

from cluster import FAST_START
from installed import CACHE

JARS = CACHE / "hadoop"
SERVER = "org.apache.hadoop.hdfs.server"


def lacking() -> str | None:
    """Why there can be no HDFS here."""
    if not shutil.which("java"):
        return "java is not installed"
    if not list(JARS.glob("hadoop-client-minicluster-*.jar")):
        return f"{JARS} has no Hadoop: scripts/setup makes it"
    return None


class Hdfs:
    """Up once the DataNode has joined."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="restmark-hdfs-"))
        # The servers insist on folders for their pages.
        for name in ("webapps/hdfs", "webapps/datanode", "webapps/static"):
            (self.folder / "conf" / name).mkdir(parents=True)
        self.url = f"hdfs://127.0.0.1:{_free_port()}"
        self._configure()
        made = self._java("namenode.NameNode", "-format", "-nonInteractive")
        subprocess.run(made, cwd=self.folder, check=True, capture_output=True)
        self.nodes = [
            self._start("namenode.NameNode", says=r"RPC up at"),
            self._start("datanode.DataNode", says=r"Successfully sent block report"),
        ]

    def stop(self) -> None:
        for node in reversed(self.nodes):
            node.terminate()
            node.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _configure(self) -> None:
        settings = {
            "fs.defaultFS": self.url,
            "hadoop.tmp.dir": f"{self.folder}/tmp",
            "dfs.namenode.http-address": "127.0.0.1:0",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.replication": "1",
            "dfs.namenode.safemode.extension": "0",
        }
        items = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
        text = f"<configuration>{''.join(items)}</configuration>"
        for name in ("core-site.xml", "hdfs-site.xml"):
            (self.folder / "conf" / name).write_text(text)

    def _java(self, name: str, *arguments: str) -> list[str]:
        path = f"{self.folder}/conf:{JARS}/*"
        return ["java", "-Xmx128m", *FAST_START.split(), "-cp", path, f"{SERVER}.{name}", *arguments]

    def _start(self, name: str, says: str) -> subprocess.Popen[str]:
        node = subprocess.Popen(
            self._java(name), cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert node.stderr is not None
        seen = []
        for line in node.stderr:
            seen.append(line)
            if re.search(says, line):
                break
        else:
            raise RuntimeError(f"{name} ended: {''.join(seen[-20:])}")
        threading.Thread(target=lambda pipe: [None for _ in pipe], args=[node.stderr], daemon=True).start()
        return node


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
