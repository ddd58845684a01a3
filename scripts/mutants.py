#!/usr/bin/env python3
"""Plants the bugs of tests/mutants/FOLDER/NAME.patch, one at a time, in a copy of the tree and runs the tests that ought to
see each.

A patch begins with lines of this form, then comes the output of `git diff`:

    # What is broken, in a sentence.
    # test: router_core_test --gtest_filter=Dispatcher*     (repeatable; default: every test of FOLDER)
    # env: BATON_SIM_SEEDS=2000                              (repeatable)
    # limit: 30                                              (seconds, where the bug makes a test hang; default: 120)
    # equivalent: why no test can see the difference         (only where it is so)

A mutant is killed when a test fails, crashes or does not end in time. Exits 1 when one survives that is not marked as
equivalent, when a marked one is killed, and when a patch no longer applies or builds. The copy takes over a build of the
preset `mutants`, so that each mutant costs only the compilation of what it touches.
"""
import argparse
import concurrent.futures
import dataclasses
import fnmatch
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATCHES = ROOT / "tests" / "mutants"
PRESET = "mutants"
BUILD = pathlib.Path("build") / PRESET
# An unchanged test takes seconds. One that runs for this long hangs. It has some more after SIGTERM.
TEST_TIMEOUT_S, KILL_AFTER_S = 120, 5
# Where the tests of a folder of patches are registered, if not in the folder of that name.
FOLDERS = {"cuda": "tests/cuda"}


@dataclasses.dataclass
class Mutant:
    name: str
    patch: pathlib.Path
    what: str = ""
    tests: list = dataclasses.field(default_factory=list)
    env: dict = dataclasses.field(default_factory=dict)
    limit_s: float = TEST_TIMEOUT_S
    equivalent: str = ""

    @property
    def folder(self):
        return self.name.split("/")[0]


@dataclasses.dataclass
class Verdict:
    mutant: Mutant
    # killed, hang, survived, stale, no build
    state: str
    by: str = ""
    details: str = ""
    seconds: float = 0

    @property
    def is_killed(self):
        return self.state in ("killed", "hang")

    @property
    def is_good(self):
        return self.state == "survived" if self.mutant.equivalent else self.is_killed


def read_mutant(name, patch, text):
    """Raises ValueError for a header that the script does not know."""
    mutant = Mutant(name, patch)
    words = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        line = line[1:].strip()
        key, _, value = line.partition(": ")
        if key == "test":
            mutant.tests.append(value.split())
        elif key == "env":
            variable, equals, setting = value.partition("=")
            if not equals:
                raise ValueError(f"{name}: env: {value} is not NAME=VALUE")
            mutant.env[variable] = setting
        elif key == "limit":
            if not value.isdecimal() or not 1 <= int(value) <= TEST_TIMEOUT_S:
                raise ValueError(f"{name}: limit: {value} is not from 1 to {TEST_TIMEOUT_S} seconds")
            mutant.limit_s = int(value)
        elif key == "equivalent":
            mutant.equivalent = value
        else:
            words.append(line)
    mutant.what = " ".join(words)
    if not mutant.what:
        raise ValueError(f"{name}: the patch does not say in its first line what is broken")
    return mutant


def tests_of_folder(cmake_text):
    """The names of the tests that a CMakeLists.txt registers."""
    return re.findall(r"^\s*baton_test\((\w+)", cmake_text, re.MULTILINE)


def default_tests(folder):
    """The tests for a patch of the folder that names none."""
    cmake = ROOT / FOLDERS.get(folder, folder) / "CMakeLists.txt"
    return [[test] for test in tests_of_folder(cmake.read_text())] if cmake.exists() else []


def within(limit_s, command):
    """The command, ended with all processes of its group when its time is over."""
    return ["timeout", f"--kill-after={KILL_AFTER_S}", str(limit_s), *command]


def state_of(returncode):
    """What the end of a command of `within` says: passed, killed or hang."""
    return {0: "passed", 124: "hang", 137: "hang", -9: "hang"}.get(returncode, "killed")


def who_failed(output):
    """The test cases that failed, as GoogleTest names them; the one that ran last when the process ended on its own."""
    failed = re.findall(r"^\[  FAILED  \] ([\w./]+)(?:,| \()", output, re.MULTILINE)
    if not failed:
        failed = re.findall(r"^\[ RUN      \] ([\w./]+)", output, re.MULTILINE)[-1:]
    seeds = re.findall(r"after \d+ seeds", output)
    names = list(dict.fromkeys(failed))
    shown = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
    return shown + (f" ({seeds[0]})" if seeds else "")


def load(only):
    mutants = []
    for patch in sorted(PATCHES.glob("*/*.patch")):
        name = str(patch.relative_to(PATCHES))[:-len(".patch")]
        if not fnmatch.fnmatch(name, only):
            continue
        mutant = read_mutant(name, patch, patch.read_text())
        mutant.tests = mutant.tests or default_tests(mutant.folder)
        if not mutant.tests:
            raise ValueError(f"{name}: names no test, and {mutant.folder} has none")
        mutants.append(mutant)
    return mutants


def changed_since(commit):
    """The patches that are new since the commit, or have changed."""
    command = ["git", "diff", "--name-only", "--diff-filter=d", commit, "--", str(PATCHES)]
    names = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {ROOT / name for name in names.splitlines()}


def apply(mutant, tree, *options):
    """True when the patch applies. The lines beside a change may have changed, but for one."""
    return run(["git", "apply", "-C1", *options, str(mutant.patch)], tree).returncode == 0


def run(command, tree, env=None):
    # A copy of the tree belongs to no repository.
    ceiling = {"GIT_CEILING_DIRECTORIES": str(pathlib.Path(tree).parent)}
    return subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, env={**os.environ, **ceiling, **(env or {})})


class Tree:
    """A copy of the tree with its build, seen under the path of the original, so that nothing has to be built anew."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "tree"
        files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                               stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
        for file in filter(None, files):
            if (ROOT / file).is_file():
                (self.path / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, self.path / file)
        shutil.copytree(ROOT / BUILD, self.path / BUILD, symlinks=True)
        enter = f"mount --bind '{self.path}' '{ROOT}' && cd '{ROOT}' && exec \"$@\""
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        self.prefix = ["unshare", *user, "--mount", "sh", "-c", enter, "sh"]
        if run([*self.prefix, "true"], self.path).returncode != 0:
            sys.exit("mutants.py: error: this machine does not let the script make a mount namespace: run it as root")

    def build(self, tests):
        targets = sorted({test[0] for test in tests})
        return run([*self.prefix, "cmake", "--build", str(BUILD), "--target", *targets], self.path)

    def test(self, test, env, limit_s=TEST_TIMEOUT_S):
        """The state and the output of one test."""
        result = run([*self.prefix, *within(limit_s, [str(BUILD / "tests" / test[0]), *test[1:]])], self.path, env=env)
        return state_of(result.returncode), result.stdout

    def judge(self, mutant):
        began = time.monotonic()
        verdict = self._judge(mutant)
        verdict.seconds = time.monotonic() - began
        return verdict

    def _judge(self, mutant):
        if not apply(mutant, self.path):
            return Verdict(mutant, "stale", details="the patch no longer applies: plant the bug in the code of today")
        try:
            built = self.build(mutant.tests)
            if built.returncode != 0:
                return Verdict(mutant, "no build", details=built.stdout[-1500:])
            for test in mutant.tests:
                state, output = self.test(test, mutant.env, mutant.limit_s)
                if state != "passed":
                    return Verdict(mutant, state, f"{test[0]}: {who_failed(output)}")
            return Verdict(mutant, "survived", details=mutant.what)
        finally:
            if not apply(mutant, self.path, "--reverse"):
                raise RuntimeError(f"{mutant.name}: the patch cannot be taken out again")


def build_unchanged(mutants):
    targets = sorted({test[0] for mutant in mutants for test in mutant.tests})
    if subprocess.run([ROOT / "scripts/build.sh", PRESET, "--target", *targets], stdout=sys.stderr, check=False).returncode:
        sys.exit("mutants.py: error: the unchanged tree does not build")


def check_unchanged(tree, mutants):
    """Tests that fail without a bug would kill every mutant."""
    tests = {tuple(test): mutant.env for mutant in mutants for test in mutant.tests}
    for test, env in tests.items():
        state, output = tree.test(list(test), env)
        if state != "passed":
            sys.exit(f"mutants.py: error: {' '.join(test)} fails without a mutant\n{output[-1500:]}")


def show(verdict):
    mark = "" if verdict.is_good else "   <--"
    state = "equivalent" if verdict.is_good and verdict.mutant.equivalent else verdict.state
    print(f"{state:<10} {verdict.mutant.name:<48} {verdict.seconds:5.1f} s  {verdict.by}{mark}", flush=True)
    if not verdict.is_good:
        print(f"           {verdict.details}", flush=True)


def judge_all(mutants, jobs):
    trees = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="baton-mutants-") as folder:
        for number in range(jobs):
            trees.put(Tree(pathlib.Path(folder) / str(number)))

        def judge(mutant):
            tree = trees.get()
            try:
                verdict = tree.judge(mutant)
            finally:
                trees.put(tree)
            show(verdict)
            return verdict

        tree = trees.get()
        check_unchanged(tree, mutants)
        trees.put(tree)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(judge, mutants))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", metavar="GLOB", help="only mutants FOLDER/NAME that match")
    parser.add_argument("--since", metavar="COMMIT", help="only those whose patches are new or changed since the commit")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree at work at once")
    parser.add_argument("--list", action="store_true", help="prints the mutants and their tests")
    parser.add_argument("--check", action="store_true", help="only asks whether the patches apply")
    arguments = parser.parse_args()
    try:
        mutants = load(arguments.only)
    except ValueError as error:
        sys.exit(f"mutants.py: error: {error}")
    if arguments.since:
        patches = changed_since(arguments.since)
        mutants = [mutant for mutant in mutants if mutant.patch in patches]
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.name}: {mutant.what} [{'; '.join(' '.join(test) for test in mutant.tests)}]")
        return 0
    if arguments.check:
        stale = [mutant.name for mutant in mutants if not apply(mutant, ROOT, "--check")]
        print(*(f"tests/mutants/{name}.patch no longer applies: plant the bug in the code of today" for name in stale),
              sep="\n", end="\n" if stale else "")
        return 1 if stale else 0
    if not mutants:
        sys.exit("mutants.py: error: no mutant is left to plant")
    build_unchanged(mutants)
    verdicts = judge_all(mutants, arguments.jobs)
    killed = sum(verdict.is_killed for verdict in verdicts)
    bad = [verdict for verdict in verdicts if not verdict.is_good]
    print(f"\n{len(verdicts)} mutants: {killed} killed, {sum(bool(v.mutant.equivalent) for v in verdicts)} equivalent, "
          f"{len(bad)} to be seen to{': ' if bad else ''}{', '.join(verdict.mutant.name for verdict in bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
