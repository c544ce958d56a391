"""The CPU share of other processes during a round. Results from a busy machine are not valid."""

import os
import resource

TICKS = os.sysconf("SC_CLK_TCK")


class Watch:
    """Created before a round and read after it. `server` is the process id of a server that outlives the round, if any."""

    def __init__(self, server):
        self.server = server
        self.before = self.read()

    def others(self):
        """Returns the CPU share of processes outside of the round, from 0 to 1."""
        busy, total, own = (now - then for now, then in zip(self.read(), self.before))
        return round(max(busy - own, 0) / total, 3) if total > 0 else 0.0

    def read(self):
        with open("/proc/stat", encoding="ascii") as stat:
            user, nice, system, idle, waiting, *interrupts = map(int, stat.readline().split()[1:9])
        busy = user + nice + system + sum(interrupts)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = ended.ru_utime + ended.ru_stime + (server_seconds(self.server) if self.server else 0)
        return busy / TICKS, (busy + idle + waiting) / TICKS, own


def server_seconds(pid):
    """Returns the CPU seconds of a server and of its running and ended children."""
    total = ticks(pid, ended_children=True)
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        total += sum(ticks(child) for child in children.read().split())
    return total / TICKS


def ticks(pid, ended_children=False):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15 if ended_children else 13]))
