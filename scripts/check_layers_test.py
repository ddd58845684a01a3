"""Tests of check_layers.py on small trees."""
import pathlib
import tempfile
import unittest

import check_layers

ARCHITECTURE = """
## Folders, and who may include whom

| folder | is | may include |
|---|---|---|
| `proto/` | wire formats | nothing of ours |
| `common/` | basics | proto |
| `engine/` | the engine | common |
| `left/`, `right/` | two of a kind | the same, engine |
| `FOLDER/testing/` | helpers of tests | what its folder may |
| `cli/` | the binary | all of the above |
| `simulator/`, `tests/` | tests | anything |

## Cores without I/O

| core | header | owned by |
|---|---|---|
| who waits | `engine/line.h` | the loop |

## Life of a request
"""
TREE = {"ARCHITECTURE.md": ARCHITECTURE, "engine/line.h": "", "engine/line.cc": '#include "engine/line.h"'}


def breaches(files):
    """Breaches of a tree of the files above with these added or put in their place."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in {**TREE, **files}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return list(check_layers.breaches(check_layers.Tree(root)))


class CheckLayers(unittest.TestCase):
    def assert_one_breach(self, files, expected):
        found = breaches(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn(expected, found[0])

    def test_a_tree_that_keeps_to_the_tables_has_no_breach(self):
        self.assertEqual(breaches({"cli/main.cc": '#include "engine/line.h"\n#include "left/x.h"',
                                   "right/x.cc": '#include "common/ids.h"',
                                   "common/wire.h": '#include "baton/v1/generation.pb.h"'}), [])

    def test_an_include_that_the_table_does_not_allow(self):
        self.assert_one_breach({"common/a.h": '\n#include "engine/line.h"'}, "common/a.h:2: common may not include")

    def test_the_same_means_the_row_above(self):
        self.assert_one_breach({"left/a.h": '#include "right/b.h"'}, "left may not include right/b.h")

    def test_nobody_may_include_what_may_include_anything(self):
        self.assert_one_breach({"engine/a.cc": '#include "tests/x.h"'}, "engine may not include tests/x.h")

    def test_product_code_may_not_include_test_helpers(self):
        helper = {"engine/testing/fake.h": ""}
        self.assertEqual(breaches({**helper, "engine/line_test.cc": '#include "engine/testing/fake.h"',
                                   "engine/testing/more.h": '#include "engine/testing/fake.h"',
                                   "simulator/node.cc": '#include "engine/testing/fake.h"'}), [])
        self.assert_one_breach({**helper, "cli/main.cc": '#include "engine/testing/fake.h"'}, "only tests, benchmarks")

    def test_a_core_may_use_no_thread_in_any_of_its_files(self):
        self.assert_one_breach({"engine/line.cc": "#include <thread>"}, "engine/line.cc:1: a core without I/O")
        self.assert_one_breach({"engine/line_more.cc": "#include <thread>"}, "engine/line_more.cc:1: a core")
        self.assert_one_breach({"engine/line.h": '#include "engine/part.h"', "engine/part.h": "",
                                "engine/part.cc": "#include <mutex>"}, "engine/part.cc:1: a core without I/O")

    def test_others_may_use_threads(self):
        self.assertEqual(breaches({"engine/loop.cc": '#include <thread>\n#include "engine/line.h"',
                                   "engine/line_test.cc": "#include <thread>"}), [])

    def test_the_generator_may_use_no_protocol_in_any_of_its_files(self):
        table = ARCHITECTURE.replace("| `left/`", "| `router/` | the router | common, proto |\n| `left/`")
        files = {"ARCHITECTURE.md": table, "router/generator.h": '#include "router/events.h"', "router/events.h": "",
                 "router/service.cc": "#include <grpcpp/grpcpp.h>"}
        self.assertEqual(breaches(files), [])
        for include in ("<grpcpp/grpcpp.h>", '"baton/v1/generation.pb.h"', '"common/rpc/wire.h"'):
            self.assert_one_breach({**files, "router/events.cc": f"#include {include}"}, "the generator knows no protocol")

    def test_headers_of_cuda_stand_in_the_plugins_folders_alone(self):
        self.assertEqual(breaches({"engine/cuda/device.h": "#include <cuda.h>",
                                   "kvtransfer/transports/nccl.cc": "#include <nccl.h>"}), [])
        self.assert_one_breach({"engine/loop.h": "#include <cuda.h>"}, "the program is built without CUDA")
        self.assert_one_breach({"common/a.cc": "#include <cuda_runtime.h>"}, "the program is built without CUDA")

    def test_only_the_clock_reads_the_time(self):
        self.assert_one_breach({"engine/loop.cc": "now = std::chrono::steady_clock::now();"}, "inject common/clock.h")

    def test_files_of_a_folder_in_a_circle(self):
        self.assert_one_breach({"engine/a.h": "", "engine/a.cc": '#include "engine/b.h"',
                                "engine/b.h": '#include "engine/a.h"'}, "in a circle: engine/a, engine/b")

    def test_a_core_of_the_table_must_be_there(self):
        self.assert_one_breach({"ARCHITECTURE.md": ARCHITECTURE.replace("line.h", "queue.h")}, "engine/queue.h")

    def test_a_table_that_allows_a_folder_to_reach_itself(self):
        found = breaches({"ARCHITECTURE.md": ARCHITECTURE.replace("| basics | proto |", "| basics | engine |")})
        self.assertTrue(any("common may include itself" in breach for breach in found), found)

    def test_a_page_without_tables(self):
        self.assertTrue(breaches({"ARCHITECTURE.md": "nothing"}))


if __name__ == "__main__":
    unittest.main()
