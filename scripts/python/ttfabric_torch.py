"""A backend of torch.distributed over the fabric, in pure Python. DistributedDataParallel works with this backend.

The tested version of torch is 1.13. 'ttfabric run' starts a program such as:

    import torch, ttfabric_torch
    ttfabric_torch.init()
    model = torch.nn.parallel.DistributedDataParallel(model)
    ...
    ttfabric_torch.finish()

Each collective call performs its operation at once, in the caller's thread, and returns a work that has ended. If the
operation fails, the call itself raises the error, also in loss.backward(). A work of torch 1.13 could not report the
error, because its method wait hides errors. The chip combines float32, bfloat16, int32 and uint8. The chip lacks other
types, and the reductions AVG, BAND, BOR and BXOR. For these, all ranks gather the tensors, and combine the tensors in the
order of the ranks. So each run repeats bit by bit. Tensors lie in the CPU's memory. send, recv, isend and irecv use
sockets, with a thread for each peer and direction. recv needs the rank of the sender.

If a chip dies, the call raises ttfabric_collective.ChipDead. In loss.backward(), torch turns this error into a RuntimeError.
The ranks that are left then call shrink, wrap their models anew, and go on.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import os
import struct
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work, _create_work_from_future
from torch.distributed.rendezvous import register_rendezvous_handler

import ttfabric
import ttfabric_collective as collective
import ttfabric_socket as sockets

_TYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.int32: "int32", torch.uint8: "uint8"}
_OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.PRODUCT: "prod", dist.ReduceOp.MIN: "min", dist.ReduceOp.MAX: "max"}
_COMBINE: Dict[Any, Callable[..., torch.Tensor]] = {
    dist.ReduceOp.SUM: torch.add, dist.ReduceOp.AVG: torch.add, dist.ReduceOp.PRODUCT: torch.mul, dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum, dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor}
_MESSAGE = struct.Struct("<Qq")  # before each message of send: length in bytes, and tag

_rank: Optional[ttfabric.Rank] = None
_store: Any = None  # where the ranks meet to begin a group
_made: Dict[Tuple[int, ...], collective.Communicator] = {}  # communicators for groups that begin, by ranks in the whole group
_generation = 0  # number of times that the ranks shrank


def init(timeout: datetime.timedelta = dist.default_pg_timeout, **options: Any) -> None:
    """Makes the default group of all ranks. The options are those of ttfabric_collective.Communicator."""
    global _rank
    _rank = ttfabric.attach()
    _made[()] = collective.Communicator(_rank, **options)
    dist.init_process_group("ttfabric", init_method="ttfabric://", timeout=timeout)


def finish() -> None:
    """Waits for all ranks, and ends all groups."""
    group = dist.distributed_c10d._get_default_group()
    dist.barrier()
    dist.destroy_process_group()
    group.close()
    if _rank is not None:
        _rank.close()


def new_group(ranks: Sequence[int]) -> Any:
    """Makes a group of some of the ranks, as torch.distributed.new_group does. All ranks call new_group.

    torch tells only the ranks of a group about the group, but the chips need all ranks. A chip takes part in at most four
    groups, and the default group is one of them.
    """
    world = dist.distributed_c10d._get_default_group()
    ranks = sorted(ranks)
    made = world.comm.split(0 if world.rank() in ranks else -1, world.rank())
    if made is not None:
        _made[tuple(ranks)] = made
    return dist.new_group(ranks)


def shrink() -> None:
    """Makes the default group of the ranks whose chips live, after a call has raised an error. All of these ranks call shrink."""
    global _generation
    old = dist.distributed_c10d._get_default_group()
    comm, timeout = old.comm.shrink(), old.timeout
    dist.destroy_process_group()
    _generation += 1
    _made[()] = comm
    dist.init_process_group("ttfabric", store=dist.PrefixStore(f"shrunk {_generation}", _store), rank=comm.rank, world_size=comm.size,
                            timeout=timeout)


def _rendezvous(url: str, **_: Any) -> Iterator[Tuple[Any, int, int]]:
    global _store
    job = f"torch-{os.environ['TTFABRIC_JOB']}.{os.environ['TTFABRIC_ATTEMPT']}".replace("/", "-")
    size = int(os.environ["WORLD_SIZE"])
    _store = dist.FileStore(os.path.join(os.environ["TTFABRIC_DIR"], job), size)
    yield _store, int(os.environ["RANK"]), size


def _create(options: Any, _: Any) -> "Group":
    ranks = tuple(options.global_ranks_in_group)
    if () not in _made and not ranks:
        raise RuntimeError("the backend ttfabric needs ttfabric_torch.init() in place of torch.distributed.init_process_group")
    if ranks not in _made:
        raise RuntimeError("the backend ttfabric needs ttfabric_torch.new_group in place of torch.distributed.new_group")
    return Group(_made.pop(ranks), options.timeout)


def _bytes(t: torch.Tensor) -> memoryview:
    return collective.memory_at(t.data_ptr(), t.numel() * t.element_size())


def _ended(tensors: Sequence[torch.Tensor]) -> Work:
    future: torch.futures.Future = torch.futures.Future()
    future.set_result(list(tensors))
    return _create_work_from_future(future)


class _Transfer(Work):
    """A send or a receive under way in another thread."""

    def __init__(self, future: "concurrent.futures.Future[None]") -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: Optional[datetime.timedelta] = None) -> bool:
        """Waits until the transfer has ended, and raises its error."""
        self._future.result(timeout.total_seconds() if timeout else None)
        return True

    def is_completed(self) -> bool:
        """Reports whether the transfer has ended."""
        return self._future.done()


class _Stream:
    """One direction of the messages between this rank and another rank."""

    def __init__(self, group: "Group", peer: int, sends: bool) -> None:
        self._group, self._peer, self._sends = group, peer, sends
        self._thread = concurrent.futures.ThreadPoolExecutor(1, f"{'to' if sends else 'from'} rank {peer}")
        self._end: Any = None

    def start(self, t: torch.Tensor, tag: int) -> Work:
        """Starts to send or to receive a tensor."""
        return _Transfer(self._thread.submit(self._send if self._sends else self._receive, t, tag))

    def _open(self) -> Any:
        if self._end is None:
            comm = self._group.comm
            # Socket 0 stays free for other programs. A chip has one sender and one receiver of each number.
            number = (self._peer - comm.rank if self._sends else comm.rank - self._peer) % comm.size
            make = sockets.Sender if self._sends else sockets.Receiver
            chip = ttfabric.Chip(os.environ["TTFABRIC_SOCKET"])
            self._end = make(chip, comm.chips[self._peer], number=number, chips=comm.chips, force=True, timeout=self._group.seconds)
        return self._end

    def _send(self, t: torch.Tensor, tag: int) -> None:
        data = t.contiguous()
        s = self._open()
        s.send(_MESSAGE.pack(data.numel() * data.element_size(), tag))
        s.send(_bytes(data))

    def _receive(self, t: torch.Tensor, tag: int) -> None:
        s = self._open()
        size, sent = _MESSAGE.unpack(s.recv_exactly(_MESSAGE.size))
        data = t.contiguous()
        want = data.numel() * data.element_size()
        if (size, sent) != (want, tag):
            raise RuntimeError(f"rank {self._peer} sends {size} bytes with tag {sent}, and this rank receives {want} bytes with tag {tag}: "
                               "messages from one rank to another come in the order in which they were sent")
        view, at = _bytes(data), 0
        while at < size:
            piece = s.recv(size - at)
            if not piece:
                raise EOFError(f"rank {self._peer} has sent {at} of {size} bytes")
            view[at:at + len(piece)] = piece
            at += len(piece)
        if data is not t:
            t.copy_(data)

    def close(self) -> None:
        """Ends the thread and the socket."""
        self._thread.shutdown()
        if self._end is not None:
            self._end.close()


class Group(dist.ProcessGroup):
    """A process group. comm is its communicator."""

    def __init__(self, comm: collective.Communicator, timeout: datetime.timedelta) -> None:
        super().__init__(comm.rank, comm.size)
        self.comm, self.timeout, self.seconds = comm, timeout, timeout.total_seconds()
        self._streams: Dict[Tuple[int, bool], _Stream] = {}

    def getBackendName(self) -> str:  # noqa: N802, torch's name
        """Returns the name of the backend."""
        return "ttfabric"

    def close(self) -> None:
        """Ends the group's sockets, thread by thread, and its communicator."""
        for s in self._streams.values():
            s.close()
        self.comm.close()

    # Tensors

    @staticmethod
    def _check(t: torch.Tensor) -> torch.Tensor:
        if t.device.type != "cpu" or t.layout != torch.strided:
            raise ValueError(f"a tensor of layout {t.layout} on device {t.device}: the backend ttfabric needs dense tensors in the CPU's memory")
        return t

    def _flat(self, t: torch.Tensor) -> torch.Tensor:
        return self._check(t).detach().contiguous()

    def _gathered(self, t: torch.Tensor) -> torch.Tensor:
        """Returns the tensors of all ranks, one after another."""
        out = torch.empty((self.size(), *t.shape), dtype=t.dtype)
        self.comm.all_gather(_bytes(t), _bytes(out), timeout=self.seconds)
        return out

    def _combined(self, t: torch.Tensor, op: Any) -> torch.Tensor:
        """Returns the tensors of all ranks, combined by this rank."""
        combine = next((f for o, f in _COMBINE.items() if op == o), None)
        if combine is None:
            raise ValueError(f"the backend ttfabric has no reduction {op}")
        parts = self._gathered(t)
        out = parts[0]
        for part in parts[1:]:
            out = combine(out, part)
        if op != dist.ReduceOp.AVG:
            return out
        return out / self.size() if t.is_floating_point() else torch.div(out, self.size(), rounding_mode="trunc")

    @staticmethod
    def _native(t: torch.Tensor, op: Any) -> Dict[str, str]:
        """Returns the arguments of the chip's reduction, or nothing if the chip lacks the type or the reduction."""
        name = next((n for o, n in _OPS.items() if op == o), None)
        return {"op": name, "dtype": _TYPES[t.dtype]} if name and t.dtype in _TYPES else {}

    # Calls of torch.distributed, with the names and the arguments of torch's process groups

    def allreduce(self, tensors: List[torch.Tensor], opts: Any) -> Work:
        """Combines the tensors of all ranks, in place."""
        for t in tensors:
            flat, native = self._flat(t), self._native(t, opts.reduceOp)
            if native:
                self.comm.all_reduce(_bytes(flat), timeout=self.seconds, **native)
            else:
                flat = self._combined(flat, opts.reduceOp)
            if flat.data_ptr() != t.data_ptr():
                t.detach().copy_(flat)
        return _ended(tensors)

    def allreduce_coalesced(self, tensors: List[torch.Tensor], opts: Any) -> Work:
        """Combines the tensors of all ranks, in place."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: List[torch.Tensor], opts: Any) -> Work:
        """Combines the tensors of all ranks, in place at the root."""
        for t in tensors:
            flat, native = self._flat(t), self._native(t, opts.reduceOp)
            if native:
                self.comm.reduce(_bytes(flat), root=opts.rootRank, timeout=self.seconds, **native)
            else:
                flat = self._combined(flat, opts.reduceOp)
            if self.rank() == opts.rootRank and flat.data_ptr() != t.data_ptr():
                t.detach().copy_(flat)
        return _ended(tensors)

    def broadcast(self, tensors: List[torch.Tensor], opts: Any) -> Work:
        """Gives all ranks the root's tensors."""
        for t in tensors:
            flat = self._flat(t)
            self.comm.broadcast(_bytes(flat), root=opts.rootRank, timeout=self.seconds)
            if flat.data_ptr() != t.data_ptr():
                t.detach().copy_(flat)
        return _ended(tensors)

    def allgather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None) -> Work:
        """Gives all ranks the tensors of all ranks."""
        for outs, t in zip(outputs, inputs):
            for out, got in zip(outs, self._gathered(self._flat(t))):
                self._check(out).detach().copy_(got.view(out.shape))
        return _ended([t for outs in outputs for t in outs])

    def _allgather_base(self, out: torch.Tensor, t: torch.Tensor, opts: Any = None) -> Work:
        self._check(out).detach().copy_(self._gathered(self._flat(t)).view(out.shape))
        return _ended([out])

    def allgather_coalesced(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None) -> Work:
        """Gives all ranks the tensors of all ranks. outputs[r][i] gets tensor i of rank r."""
        for i, t in enumerate(inputs):
            for r, got in enumerate(self._gathered(self._flat(t))):
                out = outputs[r][i]
                self._check(out).detach().copy_(got.view(out.shape))
        return _ended([t for outs in outputs for t in outs])

    def gather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any) -> Work:
        """Gives the root the tensors of all ranks."""
        flat, is_root = self._flat(inputs[0]), self.rank() == opts.rootRank
        whole = torch.empty((self.size() if is_root else 0, *flat.shape), dtype=flat.dtype)
        self.comm.gather(_bytes(flat), _bytes(whole), root=opts.rootRank, timeout=self.seconds)
        for out, got in zip(outputs[0] if is_root else [], whole):
            self._check(out).detach().copy_(got.view(out.shape))
        return _ended([t for outs in outputs for t in outs])

    def scatter(self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any) -> Work:
        """Gives each rank its tensor of the root's list."""
        t = outputs[0]
        flat = torch.empty_like(self._flat(t))
        whole = torch.stack([self._flat(x) for x in inputs[0]]) if self.rank() == opts.rootRank else torch.empty(0)
        self.comm.scatter(_bytes(whole), _bytes(flat), root=opts.rootRank, timeout=self.seconds)
        t.detach().copy_(flat)
        return _ended(outputs)

    def reduce_scatter(self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any) -> Work:
        """Combines the lists of all ranks, and gives rank r the tensor r."""
        for out, parts in zip(outputs, inputs):
            self._reduce_scatter_base(out, torch.stack([self._flat(x) for x in parts]), opts)
        return _ended(outputs)

    def _reduce_scatter_base(self, out: torch.Tensor, t: torch.Tensor, opts: Any) -> Work:
        whole, native = self._flat(t), self._native(t, opts.reduceOp)
        flat = torch.empty_like(self._flat(out))
        if native:
            self.comm.reduce_scatter(_bytes(whole), _bytes(flat), timeout=self.seconds, **native)
        else:
            flat = self._combined(whole, opts.reduceOp).view(self.size(), -1)[self.rank()].view(out.shape)
        out.detach().copy_(flat)
        return _ended([out])

    def alltoall_base(self, out: torch.Tensor, t: torch.Tensor, out_splits: List[int], in_splits: List[int], opts: Any) -> Work:
        """Gives rank r part r of each rank's tensor. The splits are the numbers of rows of the parts; none: equal parts."""
        if out_splits or in_splits:
            n = self.size()
            self.alltoall(list(out.split(out_splits or out.shape[0] // n)), list(t.split(in_splits or t.shape[0] // n)), opts)
            return _ended([out])
        whole = self._flat(t)
        flat = torch.empty_like(self._flat(out))
        self.comm.all_to_all(_bytes(whole), _bytes(flat), timeout=self.seconds)
        out.detach().copy_(flat)
        return _ended([out])

    def alltoall(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any) -> Work:
        """Gives rank r tensor r of each rank's list. The ranks first agree on the longest tensor, because lengths may differ."""
        sizes = [t.numel() * t.element_size() for t in [*outputs, *inputs]]
        longest = torch.tensor([max(sizes)], dtype=torch.int32)
        self.comm.all_reduce(_bytes(longest), op="max", dtype="int32", timeout=self.seconds)
        each = int(longest)
        whole, got = bytearray(each * self.size()), bytearray(each * self.size())
        for r, t in enumerate(inputs):
            view = _bytes(flat := self._flat(t))
            whole[each * r:each * r + len(view)] = view
            del flat
        self.comm.all_to_all(whole, got, timeout=self.seconds)
        for r, t in enumerate(outputs):
            flat = torch.empty_like(self._flat(t))
            view = _bytes(flat)
            view[:] = memoryview(got)[each * r:each * r + len(view)]
            t.detach().copy_(flat)
        return _ended(outputs)

    def barrier(self, opts: Any = None) -> Work:
        """Waits until all ranks have called barrier."""
        self.comm.barrier(timeout=self.seconds)
        return _ended([])

    def send(self, tensors: List[torch.Tensor], dst: int, tag: int = 0) -> Work:
        """Starts to send a tensor to another rank."""
        return self._stream(dst, True).start(self._check(tensors[0]).detach(), tag)

    def recv(self, tensors: List[torch.Tensor], src: int, tag: int = 0) -> Work:
        """Starts to receive a tensor from another rank."""
        return self._stream(src, False).start(self._check(tensors[0]).detach(), tag)

    def recv_anysource(self, tensors: List[torch.Tensor], tag: int = 0) -> Work:
        """Raises an error, because each socket has one sender."""
        raise ValueError("recv without a source: the backend ttfabric needs the source, as src=RANK")

    def _stream(self, peer: int, sends: bool) -> _Stream:
        if not 0 <= peer < self.size() or peer == self.rank():
            raise ValueError(f"rank {self.rank()} {'sends to' if sends else 'receives from'} rank {peer}: want another rank, 0 to {self.size() - 1}")
        if (peer, sends) not in self._streams:
            self._streams[peer, sends] = _Stream(self, peer, sends)
        return self._streams[peer, sends]


dist.Backend.register_backend("ttfabric", _create, extended_api=True)
register_rendezvous_handler("ttfabric", _rendezvous)
