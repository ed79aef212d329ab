"""Ranks train a small model with torch's DistributedDataParallel over the fabric.

The model learns the classes of random points. With --cut CABLES, rank 0 cuts cables in the middle of the training. With and
without the cut, the loss at the end is the same to the last bit, because the order of summation is fixed.

    ttfabric run --up t3000 /usr/bin/python3 train_torch.py
    ttfabric run --up t3000 /usr/bin/python3 train_torch.py --cut M0D5-M0D6
"""
import argparse
import hashlib
import subprocess

import torch
import torch.distributed as dist

import ttfabric_torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--cut", metavar="CABLES", help="cables that rank 0 cuts in the middle, such as M0D5-M0D6")
args = parser.parse_args()

torch.set_num_threads(1)  # all ranks run on one machine
ttfabric_torch.init()
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
centers = torch.randn(10, 64)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
examples = torch.Generator().manual_seed(rank + 2)
for step in range(args.steps):
    if step == args.steps // 2 and args.cut and rank == 0:
        subprocess.run(["ttfabric", "link", "down", args.cut], check=True, stdout=subprocess.DEVNULL)
    classes = torch.randint(10, (32,), generator=examples)
    points = centers[classes] + 2 * torch.randn(32, 64, generator=examples)
    loss = torch.nn.functional.cross_entropy(model(points), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0 and step % 10 == 9:
        print(f"step {step + 1}: loss {float(mean) / size:.9g}", flush=True)
if rank == 0:
    digest = hashlib.sha256(b"".join(bytes(ttfabric_torch._bytes(p.detach())) for p in model.parameters())).hexdigest()
    print(f"weights {digest[:16]}")
ttfabric_torch.finish()
