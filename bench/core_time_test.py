"""python3 -m unittest core_time_test: what two readings of /proc say."""

import pathlib
import unittest

import core_time

SECOND = 10**9


class CoreTimeTest(unittest.TestCase):
    def test_the_busiest_threads_of_a_worker_count_as_its_kernel_threads(self):
        before = {(True, "7"): {"70": SECOND}, (False, "8"): {"80": 0}}
        after = {(True, "7"): {"70": 2 * SECOND, "71": 9 * SECOND, "72": 8 * SECOND}, (False, "8"): {"80": 5 * SECOND}}
        self.assertEqual(core_time.cpu_of_processes_s(before, after, 2), {"7": (17, 1), "8": (0, 5)})

    def test_without_kernel_threads_all_count_as_others_also_those_that_began(self):
        before = {(True, "7"): {"70": SECOND}}
        after = {(True, "7"): {"70": 9 * SECOND, "71": 2 * SECOND}}
        self.assertEqual(core_time.cpu_of_processes_s(before, after, 0), {"7": (0, 10)})

    def test_the_idle_share_is_that_of_all_ticks(self):
        self.assertEqual(core_time.idle_share([10] * 8, [11, 11, 11, 13, 12, 11, 10, 11]), 30)
        self.assertEqual(len(core_time.core_ticks()), 8)

    def test_a_thread_that_ended_while_threads_were_listed_has_no_words(self):
        self.assertEqual(core_time.words_of(pathlib.Path("/proc/self/task/0/schedstat")), [])
        self.assertEqual(len(core_time.words_of(pathlib.Path("/proc/thread-self/schedstat"))), 3)


if __name__ == "__main__":
    unittest.main()
