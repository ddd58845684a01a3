"""What the tests of the APIs over HTTP share: requests that no client library would send, and the tables of their pages."""

import json
import re
import urllib.error
import urllib.request

from cluster import SOURCE_DIR


def post(cluster, path, body, content_type="application/json", headers=None):
    """(status, headers, parsed body)."""
    request = urllib.request.Request(f"http://{cluster.http}{path}", json.dumps(body).encode(),
                                     {"Content-Type": content_type, **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.load(error)


def documented_fields(page, endpoints):
    """(field, endpoint, the first word of what becomes of it) for each row of the page's table of fields. A row speaks of
    one of the endpoints or of both."""
    text = (SOURCE_DIR / page).read_text()
    for name, where, what in re.findall(rf"^\| `(\w+)` \| (both|{'|'.join(endpoints)}) \| (\w+)", text, re.MULTILINE):
        for endpoint in endpoints if where == "both" else [where]:
            yield name, endpoint, what
