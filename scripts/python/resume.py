"""Ranks add numbers to a counter of the next chip, and make a checkpoint after every fourth step. A job that loses a
chip begins again from the latest checkpoint, and ends with the same sums as a job without the loss.

    ttfabric run --up ring:4 --restart 3 --checkpoints saved python3 resume.py

With an argument, rank 0 makes the file of this name before step 6 of the first attempt, and waits for the loss of a chip.
"""
import sys
import time

import ttfabric

COUNTER = ttfabric.noc(1, 1, 0x20000)

with ttfabric.attach() as me:
    first = int(me.state or b"0")
    for step in range(first, 12):
        if step == 6 and me.attempt == 0 and me.rank == 0 and len(sys.argv) > 1:
            open(sys.argv[1], "x").close()
            while True:
                time.sleep(1)
        me.atomic_inc(me.chips[(me.rank + 1) % me.world_size], COUNTER, 1000 * step + me.rank, flush=True)
        me.barrier()
        if step % 4 == 3:
            me.save(b"%d" % (step + 1))
    print(f"rank {me.rank} began at step {first}, sum {me.read_word(me.chip, COUNTER)}", flush=True)
