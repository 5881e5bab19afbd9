"""A small hub on this machine: it speaks what huggingface_hub asks of one, and keeps files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class Hub(ThreadingHTTPServer):
    """Repositories as dictionaries of files."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.models: dict[str, dict[str, bytes]] = {}
        self.objects: dict[str, bytes] = {}  # large files, by their sha256
        self.private: dict[str, bool] = {}
        self.asked: list[str] = []  # files that were fetched

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def sha(self, name: str) -> str:
        whole = json.dumps({k: hashlib.sha1(v).hexdigest() for k, v in self.models[name].items()})
        return hashlib.sha1(whole.encode()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Hub

    def log_message(self, *_: object) -> None:
        pass

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, data: Any, status: int = 200, **headers: str) -> None:
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_POST(self) -> None:
        path, hub, body = unquote(urlsplit(self.path).path), self.server, self.body()
        if not self.headers.get("Authorization"):
            return self.answer({"error": "log in"}, 401)
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            hub.models.setdefault(name, {})
            hub.private[name] = asked.get("visibility") == "private" or bool(asked.get("private"))
            return self.answer({"url": f"{hub.address}/{name}", "name": name, "id": name})
        if path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if path.endswith("/objects/batch"):
            objects = [
                {**o, "actions": self.actions(o["oid"])} for o in json.loads(body)["objects"]
            ]
            return self.answer({"transfer": "basic", "objects": objects})
        if found := re.fullmatch(r"/api/models/(.+)/preupload/main", path):
            files = [f["path"] for f in json.loads(body)["files"]]
            mode = {f: "lfs" if f.endswith(".safetensors") else "regular" for f in files}
            rows = [{"path": f, "uploadMode": mode[f], "shouldIgnore": False} for f in files]
            return self.answer({"files": rows})
        if found := re.fullmatch(r"/api/models/(.+)/commit/main", path):
            self.commit(found[1], body)
            sha = hub.sha(found[1])
            return self.answer({"commitUrl": f"{hub.address}/{found[1]}", "commitOid": sha})
        return self.answer({"error": path}, 404)

    def actions(self, oid: str) -> dict[str, Any]:
        return {"upload": {"href": f"{self.server.address}/objects/{oid}"}}

    def commit(self, name: str, body: bytes) -> None:
        """Enter the files of a commit."""
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                self.server.models[name][value["path"]] = base64.b64decode(value["content"])
            if entry["key"] == "lfsFile":
                self.server.models[name][value["path"]] = self.server.objects[value["oid"]]

    def do_PUT(self) -> None:
        oid, data = self.path.rsplit("/", 1)[1], self.body()
        if hashlib.sha256(data).hexdigest() != oid:
            return self.answer({"error": "another file"}, 400)
        self.server.objects[oid] = data
        return self.answer({})

    def do_GET(self) -> None:
        path, hub = unquote(urlsplit(self.path).path), self.server
        found = re.fullmatch(r"(?:/api/models)?/([^/]+/[^/]+?)(?:/(\w+)/([^/]+)(?:/(.+))?)?", path)
        if found is None or found[1] not in hub.models:
            return self.answer({"error": "none"}, 404, X_Error_Code="RepoNotFound")
        name, kind, file = found[1], found[2], found[4]
        files, sha = hub.models[name], hub.sha(name)
        if kind == "tree":
            rows = [
                {"type": "file", "path": k, "size": len(v), "oid": hashlib.sha1(v).hexdigest()}
                for k, v in files.items()
            ]
            return self.answer(rows)
        if kind == "resolve":
            if file not in files:
                return self.answer({"error": "none"}, 404, X_Error_Code="EntryNotFound")
            if self.command == "GET":
                hub.asked.append(file)
            etag = f'"{hashlib.sha1(files[file]).hexdigest()}"'
            return self.answer(files[file], ETag=etag, X_Repo_Commit=sha)
        siblings = [{"rfilename": f} for f in files]
        return self.answer({"id": name, "sha": sha, "siblings": siblings})

    do_HEAD = do_GET  # noqa: N815


@contextmanager
def running() -> Iterator[Hub]:
    """A hub for the time of a test."""
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
