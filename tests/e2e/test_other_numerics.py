"""The last decode worker of a fingerprint is killed while streams run. One whose client allows it goes on at workers of
another KV type, with a label and with exactly the tokens that these give after the outputs so far; one whose client does not
waits for a worker of its own, and has exactly the tokens that it would have had."""

import json
import subprocess
import urllib.request

from client import Background, Client
from cluster import BINARY, RoleProcess, await_workers

PROMPT_TOKENS = 60
# Together with a delay of each step the streams last four seconds or more, so that they run when their worker is killed.
SAMPLING = {"max_tokens": 200, "ignore_eos": True, "logprobs": 1}
SLOW_STEPS = {"BATON_TEST_DELAYS": "step=20"}
JOIN_S = 60


def test_only_a_request_that_allows_it_goes_on_with_other_numerics_and_is_labelled(prose_ids):
    prompt = prose_ids[:PROMPT_TOKENS]
    with RoleProcess("router", "--grpc-port", 0) as router, Client(router.target) as client:
        def worker(role, kv_dtype, env=None):
            return RoleProcess(role, "--router", router.cluster_target, "--grpc-port", 0, "--threads", 1, "--kv-dtype",
                               kv_dtype, env=env)

        with worker("prefill-worker", "bf16"), worker("decode-worker", "bf16", SLOW_STEPS) as own:
            await_workers(router, 2, JOIN_S)
            expected = client.generate(prompt, SAMPLING, allow_other_numerics=True)
            assert not expected.other_numerics and not expected.finished.HasField("other_numerics_from")
            allows = Background(client, prompt, SAMPLING, tokens=2, allow_other_numerics=True)
            insists = Background(client, prompt, SAMPLING, tokens=2)
            for stream in (allows, insists):
                stream.wait_running()
            command = generate_by_command(router, prompt)
            own.kill()
            with worker("prefill-worker", "int8"), worker("decode-worker", "int8"):
                went_on = allows.result()
                check_labelled(went_on, expected)
                stood_at = insists.received()
                # Whoever has int8 KV gives the same from there on, whether it began there or not.
                begin = went_on.other_numerics[0]
                rest = client.generate(prompt + went_on.token_ids[:begin],
                                       SAMPLING | {"max_tokens": SAMPLING["max_tokens"] - begin})
                assert went_on.token_ids[begin:] == rest.token_ids
                by_command = ended(*command)
                begin = by_command["other_numerics_from"]
                assert by_command["token_ids"][:begin] == expected.token_ids[:begin]
                page = urllib.request.urlopen(f"http://{router.admin}/metrics", timeout=10).read().decode()
                assert "\nbaton_requests_other_numerics_total 2\n" in page
                assert insists.received() == stood_at and insists.is_running(), "nobody may go on with it"
                with worker("decode-worker", "bf16"):
                    stayed = insists.result()
                    assert stayed.error is None, stayed.error
                    assert stayed.token_ids == expected.token_ids
                    assert not stayed.other_numerics and not stayed.finished.HasField("other_numerics_from")


def generate_by_command(router, prompt):
    """The command, and the first line that it has printed."""
    command = subprocess.Popen([BINARY, "generate", "--target", router.target, "--token-ids", ",".join(map(str, prompt)),
                                "--max-tokens", str(SAMPLING["max_tokens"]), "--ignore-eos", "--allow-other-numerics", "--jsonl"],
                               stdout=subprocess.PIPE)
    return command, command.stdout.readline()


def ended(command, first_line):
    """What the last line of the command says, with the tokens of all lines."""
    with command:
        lines = [json.loads(line) for line in (first_line, *command.stdout)]
    assert command.returncode == 0
    return {**lines[-1], "token_ids": [token for line in lines[:-1] for token in line["token_ids"]]}


def check_labelled(went_on, expected):
    assert went_on.error is None, went_on.error
    assert len(went_on.token_ids) == SAMPLING["max_tokens"]
    begin = went_on.finished.other_numerics_from
    assert 2 <= begin < SAMPLING["max_tokens"], begin
    assert went_on.other_numerics == list(range(begin, SAMPLING["max_tokens"]))
    assert went_on.token_ids[:begin] == expected.token_ids[:begin]
