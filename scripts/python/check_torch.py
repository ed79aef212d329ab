"""Checks the backend of torch.distributed: each rank makes the calls, and compares the results with its own computation.

    ttfabric run --up mesh:2x2 /usr/bin/python3 check_torch.py
    ttfabric run --up mesh:2x2 --keep-ranks /usr/bin/python3 check_torch.py --kill M0D3

With --kill, rank 0 kills a chip while the ranks train a model. The ranks that are left shrink the group, and go on.
"""
from __future__ import annotations

import argparse
import datetime
import functools
import subprocess
import warnings
from typing import Any, List

import torch
import torch.distributed as dist

import ttfabric_collective as collective
import ttfabric_torch

warnings.filterwarnings("ignore", category=UserWarning)  # torch 1.13 marks some calls as private in later releases
OPS = {dist.ReduceOp.SUM: torch.add, dist.ReduceOp.PRODUCT: torch.mul, dist.ReduceOp.MIN: torch.minimum, dist.ReduceOp.MAX: torch.maximum}
BITS = {dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or, dist.ReduceOp.BXOR: torch.bitwise_xor}
TYPES = (torch.float32, torch.bfloat16, torch.int32, torch.uint8, torch.float64, torch.float16, torch.int64, torch.int16, torch.bool)


def same(got: torch.Tensor, want: torch.Tensor, what: str) -> None:
    """Fails if two tensors differ."""
    if got.dtype != want.dtype or got.shape != want.shape or not torch.equal(got, want):
        raise AssertionError(f"rank {dist.get_rank()}: {what}: got {got}, want {want}")


def tensor(rank: int, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Returns the tensor of a rank: small whole numbers, so that each order of summation has the same result."""
    g = torch.Generator().manual_seed(1000 + rank)
    return torch.randint(0 if dtype in (torch.uint8, torch.bool) else -2, 3, shape, generator=g).to(dtype)


def reductions(rank: int, n: int, group: Any = None) -> None:
    """Checks the calls that combine tensors."""
    for dtype in TYPES:
        whole = {**OPS, **({} if dtype.is_floating_point else BITS)}
        for op, f in whole.items():
            for shape in ((3, 5), (1,), (), (7000,)):
                own = [tensor(r, dtype, *shape) for r in range(n)]
                want = functools.reduce(f, own)
                t = own[rank].clone()
                dist.all_reduce(t, op, group=group)
                same(t, want, f"all_reduce {dtype} {op}")
        own = [tensor(r, dtype, n * 4, 3) for r in range(n)]
        want = functools.reduce(torch.add, own)
        t = own[rank].clone()
        dist.reduce(t, 0 if group is None else dist.distributed_c10d._get_global_rank(group, 0), group=group)
        same(t, want if rank == 0 else own[rank], f"reduce {dtype}")
        out = torch.empty_like(own[0][:4])
        dist.reduce_scatter(out, list(own[rank].split(4)), group=group)
        same(out, want[4 * rank:4 * rank + 4], f"reduce_scatter {dtype}")
        out = torch.empty_like(out)
        dist._reduce_scatter_base(out, own[rank], group=group)
        same(out, want[4 * rank:4 * rank + 4], f"_reduce_scatter_base {dtype}")
    t = torch.arange(12.0).view(3, 4).t()  # not contiguous
    dist.all_reduce(t, group=group)
    same(t, n * torch.arange(12.0).view(3, 4).t(), "all_reduce of a transposed tensor")
    t = torch.full((3,), float(rank))
    dist.all_reduce(t, dist.ReduceOp.AVG, group=group)
    same(t, torch.full((3,), sum(range(n)) / n), "all_reduce with AVG")


def moves(rank: int, n: int) -> None:
    """Checks the calls that move tensors."""
    for dtype in TYPES:
        own = [tensor(r, dtype, n, 3) for r in range(n)]
        outs = [torch.empty_like(t) for t in own]
        dist.all_gather(outs, own[rank])
        for out, want in zip(outs, own):
            same(out, want, "all_gather")
        whole = torch.empty(n * n, 3, dtype=dtype)
        dist._all_gather_base(whole, own[rank])
        same(whole, torch.cat(own), "_all_gather_base")
        t = own[rank].clone()
        dist.broadcast(t, n - 1)
        same(t, own[n - 1], "broadcast")
        outs = [torch.empty_like(t) for t in own]
        dist.gather(own[rank], outs if rank == 1 else None, dst=1)
        for out, want in zip(outs if rank == 1 else [], own):
            same(out, want, "gather")
        out = torch.empty_like(own[0][0])
        dist.scatter(out, list(own[1]) if rank == 1 else None, src=1)
        same(out, own[1][rank], "scatter")
        out = torch.empty_like(own[0])
        dist.all_to_all_single(out, own[rank])
        same(out, torch.stack([t[rank] for t in own]), "all_to_all_single")
        outs = [torch.empty(3, dtype=dtype) for _ in own]
        dist.all_to_all(outs, list(own[rank]))
        for out, t in zip(outs, own):
            same(out, t[rank], "all_to_all")
    # Parts of different lengths: rank r sends r + 1 rows to each rank.
    out = torch.empty(n * (n + 1) // 2, 2)
    dist.all_to_all_single(out, torch.full((n * (rank + 1), 2), float(rank)), [r + 1 for r in range(n)], n * [rank + 1])
    same(out, torch.cat([torch.full((r + 1, 2), float(r)) for r in range(n)]), "all_to_all_single with splits")
    said: List[Any] = [None] * n
    dist.all_gather_object(said, {"rank": rank})
    assert said == [{"rank": r} for r in range(n)], said
    dist.barrier()


def messages(rank: int, n: int) -> None:
    """Checks send and receive: each rank sends to all others, before it receives."""
    for size in (0, 5, 700000):
        sends = [dist.isend(torch.full((size,), float(rank)), r, tag=size) for r in range(n) if r != rank]
        for r in range(n):
            if r != rank:
                t = torch.empty(size)
                dist.recv(t, r, tag=size)
                same(t, torch.full((size,), float(r)), f"recv from rank {r}")
        for s in sends:
            s.wait()


def refusals(rank: int, n: int) -> None:
    """Checks that calls raise errors."""
    for call, text in ((lambda: dist.all_reduce(torch.zeros(2).to_sparse()), "dense"), (lambda: dist.send(torch.zeros(2), rank), "rank"),
                       (lambda: dist.recv(torch.zeros(2)), "source"), (lambda: dist.new_group(list(range(n))), "ttfabric_torch.new_group")):
        try:
            call()
        except Exception as e:
            assert text in str(e), e
        else:
            raise AssertionError(f"no error that names {text!r}")


def train(steps: int, rank: int) -> Any:
    """Trains a model, and returns its gradients' sum, or raises an error."""
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(200, 100))
    for _ in range(steps):
        model.zero_grad()
        model(torch.full((1, 200), float(rank))).sum().backward()
    return float(model.module.weight.grad.sum())


def survive(chip: str) -> None:
    """Trains while rank 0 kills a chip, and goes on with the ranks that are left."""
    rank, n = dist.get_rank(), dist.get_world_size()
    train(3, rank)
    killer = subprocess.Popen(["ttfabric", "chip", "kill", chip], stdout=subprocess.DEVNULL) if rank == 0 else None
    try:
        train(10 ** 6, rank)
    except (RuntimeError, collective.ChipDead) as e:
        assert chip in str(e) and "is dead" in str(e), e
    try:
        dist.barrier()
    except collective.ChipDead as e:
        assert e.rank == n - 1, e.rank
    ttfabric_torch.shrink()
    now, left = dist.get_rank(), dist.get_world_size()
    assert left == n - 1, left
    want = sum(range(left)) / left * 200 * 100
    got = train(3, now)
    assert got == want, (got, want)
    reductions(now, left)
    if killer is not None:
        killer.wait()
        print(f"{left} of {n} ranks go on without chip {chip}")


def main() -> None:
    """Runs all checks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kill", metavar="CHIP", help="kill this chip, the last one, and go on")
    args = parser.parse_args()
    torch.set_num_threads(1)
    ttfabric_torch.init(timeout=datetime.timedelta(minutes=2))
    rank, n = dist.get_rank(), dist.get_world_size()
    if args.kill:
        survive(args.kill)
        ttfabric_torch.finish()
        return
    reductions(rank, n)
    moves(rank, n)
    messages(rank, n)
    refusals(rank, n)
    half = ttfabric_torch.new_group(range(n // 2))
    if rank < n // 2:
        reductions(rank, n // 2, half)
    got = train(2, rank)
    want = sum(range(n)) / n * 200 * 100
    assert got == want, (got, want)
    if rank == 0:
        print(f"{n} ranks: all calls are right")
    ttfabric_torch.finish()


main()
