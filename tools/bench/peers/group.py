"""torch.distributed over gloo, 2 processes: all_reduce of 1 MiB and of 8 bytes, and a message of 8 bytes to and fro."""
import statistics
import tempfile
import time

import torch
import torch.multiprocessing as processes
from torch import distributed

from common import arguments, say

TURNS, LARGE_CALLS, SMALL_CALLS = 9, 50, 500


def median_microseconds(calls, call):
    """Of one call; the first turn warms up."""
    turns = []
    for _ in range(1 + TURNS):
        distributed.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        turns.append(1e6 * (time.perf_counter() - start) / calls)
    return statistics.median(turns[1:])


def work(rank, meeting):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    large, small = torch.zeros(1 << 18), torch.zeros(2)

    def there_and_back():
        turns = [lambda: distributed.send(small, 1 - rank), lambda: distributed.recv(small, 1 - rank)]
        for turn in turns if rank == 0 else reversed(turns):
            turn()

    figures = {
        "all_reduce_microseconds": median_microseconds(LARGE_CALLS, lambda: distributed.all_reduce(large)),
        "small_all_reduce_microseconds": median_microseconds(SMALL_CALLS, lambda: distributed.all_reduce(small)),
        "one_way_microseconds": median_microseconds(SMALL_CALLS, there_and_back) / 2,
    }
    if rank == 0:
        say(peer="group", ranks=2, **figures)
    distributed.destroy_process_group()


def main():
    arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(work, (f"{folder}/meeting",), nprocs=2)


if __name__ == "__main__":
    main()
