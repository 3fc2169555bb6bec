"""Serves a folder on 127.0.0.1 for tests of tools that download; prints the port.

/slow/NAME sends half of NAME, creates the file `half-sent` in the folder and then nothing more;
/short/NAME announces more bytes than it sends.
"""
import http.server, os, sys, time

FOLDER = sys.argv[1]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        way, name = os.path.split(self.path)
        try:
            with open(os.path.join(FOLDER, name), "rb") as file:
                body = file.read()
        except OSError:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + (10 if way == "/short" else 0)))
        self.end_headers()
        if way != "/slow":
            return self.wfile.write(body)
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        open(os.path.join(FOLDER, "half-sent"), "w").close()
        time.sleep(60)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
