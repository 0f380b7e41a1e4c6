"""The real Moto server for S3, one request at a time: Moto checks a condition and stores in two steps, S3 in one.

    s3.py           prints http://127.0.0.1:PORT and serves until it is killed

Left to itself Moto answers two writers with 200 when its threads change between the steps: seldom, but it does.
"""

import io
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

moto = DomainDispatcherApplication(create_backend_app)
lock = threading.Lock()


def one_at_a_time(environ, start_response):
    # A slow sender keeps nobody waiting: its body is read before its turn.
    length = -1 if environ.get("wsgi.input_terminated") else int(environ.get("CONTENT_LENGTH") or 0)
    environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
    with lock:
        return list(moto(environ, start_response))


class Handler(MotoRequestHandler):
    def log_request(self, *_):
        pass


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True, request_handler=Handler)
    print(f"http://127.0.0.1:{server.port}", flush=True)
    server.serve_forever()
