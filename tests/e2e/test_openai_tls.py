"""The own Python clients of OpenAI and Anthropic against the HTTP port of a cluster with certificates and API keys."""

import contextlib
import http.client
import json
import signal
import socket
import ssl
import threading
import urllib.error
import urllib.request

import anthropic
import openai
import pytest

from certificates import ALL, Authority
from client import Client
from cluster import SOURCE_DIR, Cluster, RoleProcess, run_baton, wait_until
from pages import blocks_of
from test_api_keys import Keys, credentials

MODEL = "smollm2-135m-instruct"
QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
RELOAD_TIMEOUT_S = 20
TENANT_BURST = 600


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def issued(ca):
    return ca.issue(*ALL)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def cluster(issued, keys):
    with Cluster("--threads", 1, "--prefill", 0, "--decode", 0, "--mixed", 1, *issued.flags, "--api-keys", keys.path) as cluster:
        yield cluster


def trusting(ca_file, shown=None):
    context = ssl.create_default_context(cafile=ca_file)
    if shown is not None:
        context.load_cert_chain(shown.cert, shown.key)
    return context


def connect(cluster, key, context):
    return openai.OpenAI(base_url=f"https://{cluster.http}/v1", api_key=key, max_retries=0,
                         http_client=openai.DefaultHttpxClient(verify=context))


@pytest.fixture(scope="module")
def alice(cluster, keys, ca):
    return connect(cluster, keys.keys["alice"], trusting(ca.cert))


@pytest.fixture(scope="module")
def bob(cluster, keys, ca):
    return connect(cluster, keys.keys["bob"], trusting(ca.cert))


def ask(cluster, ca, method, path, body=None, headers=None):
    """(status, headers, body)."""
    host, _, port = cluster.http.rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=60, context=trusting(ca.cert))
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def test_answers_are_those_of_grpc(cluster, alice, keys, issued):
    asked = {"model": MODEL, "messages": QUESTION, "max_tokens": 20, "temperature": 0, "extra_body": {"ignore_eos": True}}
    whole = alice.chat.completions.create(**asked)
    chunks = list(alice.chat.completions.create(**asked, stream=True))
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    prompt = list(range(500, 520))
    answer = alice.completions.create(model=MODEL, prompt=prompt, max_tokens=16, temperature=0,
                                      extra_body={"return_token_ids": True})
    with Client(cluster.target, credentials(issued, keys.keys["alice"])) as grpc_client:
        assert answer.choices[0].token_ids == list(grpc_client.generate(prompt, {"max_tokens": 16, "temperature": 0}).token_ids)
    assert [model.id for model in alice.models.list().data] == [MODEL]


def test_anthropics_clients_show_the_same_keys(cluster, keys, ca):
    def connect_with(key):
        return anthropic.Anthropic(base_url=f"https://{cluster.http}", api_key=key, max_retries=0,
                                   http_client=anthropic.DefaultHttpxClient(verify=trusting(ca.cert)))

    asked = {"model": MODEL, "messages": QUESTION, "max_tokens": 8}
    assert connect_with(keys.keys["alice"]).messages.create(**asked).content[0].text
    messages = connect_with("wrong").messages
    for call in (lambda: messages.create(**asked), lambda: messages.count_tokens(model=MODEL, messages=QUESTION)):
        with pytest.raises(anthropic.AuthenticationError) as refused:
            call()
        assert refused.value.body["error"]["type"] == "authentication_error"


def test_many_streams_run_at_once(alice):
    texts = [None] * 8

    def one(number):
        stream = alice.completions.create(model=MODEL, prompt="Once", max_tokens=24, temperature=0, stream=True,
                                          extra_body={"ignore_eos": True})
        texts[number] = "".join(chunk.choices[0].text for chunk in stream)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts[0] and set(texts) == {texts[0]}


def test_without_a_key_only_health_and_version_are_answered(cluster, ca, keys):
    wrong = connect(cluster, "sk-wrong-key", trusting(ca.cert))
    for call in (wrong.models.list, lambda: wrong.completions.create(model=MODEL, prompt="x"),
                 lambda: wrong.chat.completions.create(model=MODEL, messages=QUESTION, stream=True)):
        with pytest.raises(openai.AuthenticationError) as error:
            call()
        assert error.value.code == "invalid_api_key" and error.value.type == "invalid_request_error"
        assert error.value.response.headers["www-authenticate"] == "Bearer"
    hash_of_key = keys.lines["alice"].split()[1]
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": keys.keys["alice"]},
                    {"Authorization": f"Bearer {hash_of_key}"}):
        for path in ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize", "/v1/embeddings"):
            status, _, body = ask(cluster, ca, "POST", path, json.dumps({"prompt": "x"}), headers)
            assert status == 401 and json.loads(body)["error"]["code"] == "invalid_api_key", (path, headers)
        assert ask(cluster, ca, "GET", "/v1/models", headers=headers)[0] == 401
    for path in ("/health", "/ping", "/version"):
        assert ask(cluster, ca, "GET", path)[0] == 200
    status, _, body = ask(cluster, ca, "POST", "/tokenize", json.dumps({"prompt": "x"}),
                          {"Authorization": f"Bearer {keys.keys['bob']}"})
    assert status == 200 and json.loads(body)["count"] > 0


def test_the_key_says_whose_a_request_is(alice, bob, cluster, keys, issued):
    # A prefix is shared within a tenant alone, which shows whose the requests are, over HTTP and gRPC alike.
    prompt = list(range(2000, 2300))

    def cached(client):
        usage = client.completions.create(model=MODEL, prompt=prompt, max_tokens=1).usage
        return usage.prompt_tokens_details.cached_tokens

    assert cached(alice) == 0
    assert cached(alice) > 0
    assert cached(bob) == 0
    assert cached(bob) > 0
    with Client(cluster.target, credentials(issued, keys.keys["alice"])) as grpc_alice:
        assert grpc_alice.generate(prompt, {"max_tokens": 1}).finished.usage.cached_prompt_tokens > 0


def test_what_a_tenant_may_use_is_bounded_by_its_key(ca, issued, keys):
    with Cluster("--threads", 1, "--prefill", 0, "--decode", 0, "--mixed", 1, *issued.flags, "--api-keys", keys.path,
                 "--tenant-tokens-per-second", 1, "--tenant-burst-tokens", TENANT_BURST) as cluster:
        one, other = (connect(cluster, keys.keys[tenant], trusting(ca.cert)) for tenant in ("alice", "bob"))
        asked = {"model": MODEL, "prompt": list(range(500)), "max_tokens": 60}
        one.completions.create(**asked)
        with pytest.raises(openai.RateLimitError) as error:
            one.completions.create(**asked)
        assert int(error.value.response.headers["retry-after"]) >= 1
        other.completions.create(**asked)


def test_keys_come_and_go_without_a_restart(cluster, ca, keys):
    keys.add("dora")
    headers = {"Authorization": f"Bearer {keys.keys['dora']}"}
    opens = lambda: ask(cluster, ca, "GET", "/v1/models", headers=headers)[0] == 200
    assert not opens()
    keys.write()
    wait_until(opens, RELOAD_TIMEOUT_S, "the new key")
    del keys.lines["dora"]
    keys.write()
    wait_until(lambda: not opens(), RELOAD_TIMEOUT_S, "the end of the key")


def test_the_example_of_the_page_runs(cluster, ca, keys, tmp_path, capsys, monkeypatch):
    example = [block for block in blocks_of("docs/openai.md", SOURCE_DIR) if block.language == "python"][1]
    assert "127.0.0.1:8000" in example.text
    (tmp_path / "ca.pem").write_bytes(ca.cert.read_bytes())
    (tmp_path / "alice.key").write_text(keys.keys["alice"] + "\n")
    monkeypatch.chdir(tmp_path)
    exec(compile(example.text.replace("127.0.0.1:8000", cluster.http), "docs/openai.md", "exec"), {})
    assert MODEL in capsys.readouterr().out


def test_plain_http_is_told_to_speak_tls(cluster):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{cluster.http}/health", timeout=20)
    assert refused.value.code == 400 and "https" in json.load(refused.value)["error"]["message"]


def test_a_drain_serves_what_runs(ca, issued, keys):
    with Cluster("--threads", 1, "--prefill", 0, "--decode", 0, "--mixed", 1, *issued.flags, "--api-keys", keys.path) as cluster:
        client = connect(cluster, keys.keys["alice"], trusting(ca.cert))
        stream = client.completions.create(model=MODEL, prompt="Once", max_tokens=200, stream=True,
                                           extra_body={"ignore_eos": True, "return_token_ids": True})
        ids = []
        for chunk in stream:
            if not ids:
                cluster.signal(signal.SIGTERM)
            ids += getattr(chunk.choices[0], "token_ids", None) or []
        assert len(ids) == 200


def test_no_key_shows_up_in_a_log(cluster, alice, keys):
    alice.completions.create(model=MODEL, prompt="x", max_tokens=1)
    log = cluster.log()
    assert all(key not in log for key in keys.keys.values())


def test_a_new_certificate_is_used_without_a_restart(tmp_path):
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    issued = first.issue("router")
    trusts = {authority: trusting(authority.cert) for authority in (first, second)}
    with RoleProcess("router", "--grpc-port", 0, "--http-port", 0, *issued.flags) as router:
        host, _, port = router.http.rpartition(":")

        def takes(authority):
            with socket.create_connection((host, int(port)), timeout=20) as raw:
                try:
                    with trusts[authority].wrap_socket(raw, server_hostname=host) as tls:
                        return tls.version() == "TLSv1.3"
                except ssl.SSLCertVerificationError:
                    return False

        assert takes(first) and not takes(second)
        whole = issued.cert.read_bytes()
        issued.cert.write_bytes(whole[:len(whole) // 2])
        wait_until(lambda: "the former certificate stays in use" in router.log(), RELOAD_TIMEOUT_S, "an error")
        assert takes(first)
        issued.replace_by(second.issue("router"))
        wait_until(lambda: not takes(first), RELOAD_TIMEOUT_S, "the new certificate")
        assert takes(second)


def test_a_router_that_asks_for_certificates_asks_for_them_by_http_too(ca):
    with RoleProcess("router", "--grpc-port", 0, "--http-port", 0, "--tls-client-auth", "require",
                     *ca.issue("router").flags) as router:
        def status(shown):
            connection = http.client.HTTPSConnection(*router.http.rsplit(":", 1), timeout=20,
                                                     context=trusting(ca.cert, shown))
            with contextlib.closing(connection):
                connection.request("GET", "/v1/models")
                return connection.getresponse().status

        assert status(ca.issue("client")) == 200
        assert status(ca.issue("operator")) == 200
        assert status(ca.issue("decode-worker")) == 403
        for nobody in (None, ca.issue("client", days=-1)):
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
                status(nobody)


def test_a_port_on_loopback_in_plain_text_is_asked_by_its_own_names_alone():
    with RoleProcess("router", "--grpc-port", 0, "--http-port", 0, "--http-hosts", "proxy.example") as router:
        def status(host):
            request = urllib.request.Request(f"http://{router.http}/v1/models", headers={"Host": host})
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                assert "--http-hosts" in json.load(error)["error"]["message"]
                return error.code

        assert [status(host) for host in ("localhost", router.http, "[::1]:80", "proxy.example")] == [200] * 4
        assert status("rebound.example:8000") == 421


def test_serve_passes_the_names_of_hosts_on():
    assert "--http-hosts" in run_baton("serve", "--help").stdout
