"""Messages between the processes of a cluster, baton.internal.v1, for tests that pose as one of them."""

import shutil
import subprocess

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from cluster import SOURCE_DIR


def internal_messages(folder):
    """Makes classes of messages by their names: no server describes them. Writes into the folder."""
    protoc = shutil.which("protoc")
    assert protoc is not None, "the build needs it too"
    output = folder / "internal.pb"
    subprocess.run([protoc, "-I", SOURCE_DIR / "proto", "--include_imports", f"--descriptor_set_out={output}",
                    "baton/internal/v1/kv.proto"], check=True)
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"baton.internal.v1.{name}"))


def version():
    text = (SOURCE_DIR / "common/rpc/protocol.h").read_text()
    (line,) = (line for line in text.splitlines() if "kProtocolVersion =" in line)
    return int(line.partition("=")[2].strip(" ;"))


def hello_like(worker, **fields):
    """The hello of a process that has read `baton status` and claims to be that worker."""
    role = {"prefill": 1, "decode": 2, "mixed": 3}[worker["role"]]
    return {"protocol_version": version(), "incarnation": bytes.fromhex(worker["incarnation"]),
            "role": role, "target": worker["address"], "model": worker["model"], "fingerprint": worker["fingerprint"],
            "total_blocks": 1_000, "max_sequences": 8, "chunk_tokens": 512, "context_length": 8_192, "pid": 1,
            "full_groups": 1, **fields}
