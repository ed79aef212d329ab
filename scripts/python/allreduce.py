"""A rank that adds numbers with all other ranks."""
import array

import ttfabric
import ttfabric_collective as collective

with ttfabric.attach() as me, collective.Communicator(me) as ranks:
    numbers = array.array("f", [me.rank, 1, 0.5])
    ranks.all_reduce(numbers)
    if me.rank == 0:
        print(f"{ranks.path}: {numbers.tolist()}")
    ranks.barrier()
