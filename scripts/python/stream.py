"""Two ranks: the first sends numbers over a socket, and the last adds them up."""
import ttfabric
import ttfabric_socket as sockets

with ttfabric.attach() as me:
    if me.rank == 0:
        with sockets.Sender(me, me.chips[-1], page=8) as s:
            for n in range(10000):
                s.start(n.to_bytes(8, "little"))
    elif me.rank == me.world_size - 1:
        with sockets.Receiver(me, me.chips[0], page=8) as s:
            print(sum(int.from_bytes(b[i:i + 8], "little") for b in s for i in range(0, len(b), 8)))
