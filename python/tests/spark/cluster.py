"""A real standalone cluster on loopback: a master, workers and the executors that they start."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def lacking() -> str | None:
    """Why there can be no cluster here."""
    return None if shutil.which("java") else "java is not installed"


class Daemon:
    """A daemon of the cluster, up once it has said so."""

    def __init__(
        self, name: str, host: str, *arguments: str, says: str, variables: dict[str, str] | None = None
    ) -> None:
        environment = os.environ | (variables or {}) | {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": FAST_START,
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", host,
                   "--port", "0", "--webui-port", "0", *arguments]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if found := re.search(says, line):
                self.said = found[1]
                break
        else:
            raise RuntimeError(f"{name} ended: {''.join(seen)}")
        # Somebody has to go on reading, or the daemon blocks.
        threading.Thread(target=lambda pipe: [None for _ in pipe], args=[self.process.stderr], daemon=True).start()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


class Cluster:
    """A master and two workers of one core each; their executors have the workers' variables."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.folder = tempfile.mkdtemp(prefix="restmark-cluster-")
        self.daemons = [Daemon("master.Master", "127.0.0.1", says=r"Starting Spark master at (spark://\S+)")]
        self.url = self.daemons[0].said
        # Two hosts: a speculative copy never runs beside the attempt that is slow.
        for host in ("127.0.0.1", "127.0.0.2"):
            work = ["--cores", "1", "--memory", "1g", "--work-dir", f"{self.folder}/{host}"]
            says = r"(Successfully registered with master)"
            self.daemons.append(Daemon("worker.Worker", host, *work, self.url, says=says, variables=variables))

    def kill_executor(self, number: str) -> None:
        """Kills the executor of that number, as a machine that is gone."""
        workers = {daemon.process.pid for daemon in self.daemons[1:]}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            is_executor = parent in workers and b"--executor-id" in words
            if is_executor and words[words.index(b"--executor-id") + 1].decode() == number:
                os.kill(int(folder.name), signal.SIGKILL)
                return
        raise AssertionError(f"there is no executor {number}")

    def stop(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
