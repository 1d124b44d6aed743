"""filelock_run.py FILE COMMAND...: runs COMMAND under Python's FileLock; without COMMAND: nanoseconds of a lock and unlock."""
import subprocess
import sys
import time

import filelock

lock = filelock.FileLock(sys.argv[1])
if len(sys.argv) > 2:
    with lock:
        # The command is handed descriptors.
        sys.exit(subprocess.call(sys.argv[2:], close_fds=False))

rounds = 500
start = time.perf_counter_ns()
for _ in range(rounds):
    lock.acquire()
    lock.release()
print((time.perf_counter_ns() - start) // rounds)
