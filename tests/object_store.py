"""A real S3-compatible server on loopback (SeaweedFS), for tests about object storage."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import fsspec
import pytest
import s3fs

ACCESS_KEY, SECRET_KEY = "babelmill", "a-secret-for-loopback"
IDENTITIES = {
    "identities": [
        {
            "name": "tests",
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        }
    ]
}


def free_ports(count: int) -> list[int]:
    """Free ports below 50,000: the server's gRPC ports are these plus 10,000."""
    found: list[int] = []
    with ExitStack() as stack:
        candidate = 21_000 + os.getpid() * 89 % 9000  # far from those of the next process
        while len(found) < count:
            candidate += 1
            pair = [stack.enter_context(socket.socket()) for _ in range(2)]
            try:
                pair[0].bind(("127.0.0.1", candidate))
                pair[1].bind(("127.0.0.1", candidate + 10_000))
            except OSError:
                continue
            found.append(candidate)
    return found


@contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """Start the server; yields the environment that s3fs needs. It is stopped by its pid."""
    folder.mkdir(parents=True)
    config = folder / "identities.json"
    config.write_text(json.dumps(IDENTITIES))
    master, volume, filer, s3 = free_ports(4)
    command = [
        str(Path(sys.executable).parent / "weed"),
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-master.port={master}",
        f"-volume.port={volume}",
        "-filer",
        f"-filer.port={filer}",
        "-s3",
        f"-s3.port={s3}",
        f"-s3.config={config}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=20",
    ]
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3}",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        wait_until_ready(server, environment, folder / "log")
        yield environment
    finally:
        server.terminate()
        try:
            server.wait(3)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def found_by_environment(environment: Mapping[str, str]) -> Iterator[None]:
    """Let this process, and those that it starts, find the server of `s3_server`."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        fsspec.filesystem("s3").clear_instance_cache()
        yield
    fsspec.filesystem("s3").clear_instance_cache()


def wait_until_ready(
    server: subprocess.Popen[bytes], environment: dict[str, str], log: Path
) -> None:
    """Create the bucket, trying until the server answers."""
    end = time.monotonic() + 60
    while True:
        filesystem = s3fs.S3FileSystem(
            key=ACCESS_KEY,
            secret=SECRET_KEY,
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            use_listings_cache=False,
            skip_instance_cache=True,
        )
        try:
            if not filesystem.exists("corpora"):
                filesystem.mkdir("corpora")
            filesystem.pipe_file("corpora/ready", b"1")
            return
        except Exception as error:
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no S3 server: {log.read_text()[-2000:]}") from error
            time.sleep(0.5)
