"""What processes, their threads and the cores spent their time on, read from /proc."""

from pathlib import Path


def words_of(file):
    """The words of a thread's file in /proc. A thread that has ended since its folder was listed has none."""
    try:
        return file.read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def busy_ns(supervisor):
    """{(is a worker, process): {thread: nanoseconds on a core}} of the supervisor's children."""
    busy = {}
    for task in Path(f"/proc/{supervisor}/task").iterdir():
        for child in words_of(task / "children"):
            is_worker = b"-worker" in Path(f"/proc/{child}/cmdline").read_bytes()
            times = {thread.name: words_of(thread / "schedstat") for thread in Path(f"/proc/{child}/task").iterdir()}
            busy[(is_worker, child)] = {thread: int(words[0]) for thread, words in times.items() if words}
    return busy


def cpu_of_processes_s(before, after, kernel_threads):
    """{process: (CPU seconds of its kernel threads, of its other threads)} between two readings of busy_ns. The
    `kernel_threads` busiest threads of each worker count as its kernel threads."""
    cpu = {}
    for (is_worker, process), threads in after.items():
        earlier = before.get((is_worker, process), {})
        spent = sorted((ns - earlier.get(thread, 0) for thread, ns in threads.items()), reverse=True)
        kernels = kernel_threads if is_worker else 0
        cpu[process] = sum(spent[:kernels]) / 1e9, sum(spent[kernels:]) / 1e9
    return cpu


def core_ticks():
    """What all cores did since the machine started, in the columns of proc(5), /proc/stat."""
    label, *ticks = Path("/proc/stat").read_text().splitlines()[0].split()
    assert label == "cpu"
    # A guest's time, in the columns after these, is part of its host's.
    return [int(count) for count in ticks[:8]]


def idle_share(before, after):
    """Per cent of the cores' time between two readings of core_ticks."""
    spent = [new - old for old, new in zip(before, after)]
    return 100 * spent[3] / sum(spent)
