"""A rank that writes to its right neighbour and checks what its left neighbour wrote."""
import ttfabric

DATA, COUNT, SIZE = ttfabric.noc(1, 1, 0x20000), ttfabric.noc(1, 1, 0x10000), 65536

with ttfabric.attach() as me:
    right, left = me.chips[(me.rank + 1) % me.world_size], (me.rank - 1) % me.world_size
    me.write_word(me.chip, COUNT, 0)  # the counter begins at 0
    me.barrier()  # on all chips
    me.write(right, DATA, bytes([me.rank]) * SIZE)
    me.atomic_inc(right, COUNT, flush=True)
    me.wait(COUNT, 1)
    if me.read(me.chip, DATA, SIZE) != bytes([left]) * SIZE:
        raise SystemExit(f"chip {me.chip} has wrong data")
    print(f"chip {me.chip} has the data of rank {left}")
