"""Ranks train a small model together, each on its own examples. The sums of the gradients come from all-reduce.

The model learns the area of a rectangle from its sides: 2 inputs, 12 hidden units, 1 output. With --cut CABLES, rank 0 cuts
cables in the middle of the training. With and without the cut, the loss at the end is the same to the last bit, because the
order of summation is fixed.

    ttfabric run --up t3000 python3 train.py
    ttfabric run --up t3000 python3 train.py --cut M0D5-M0D6
"""
import argparse
import array
import hashlib
import math
import random
import subprocess

import ttfabric
import ttfabric_collective as collective

HIDDEN, EXAMPLES, RATE = 12, 24, 0.3  # hidden units, examples of each rank, and learning rate

args = argparse.ArgumentParser()
args.add_argument("--steps", type=int, default=200)
args.add_argument("--cut", metavar="CABLES", help="cables that rank 0 cuts in the middle, such as M0D5-M0D6")
args = args.parse_args()

with ttfabric.attach() as me, collective.Communicator(me) as ranks:
    seed = random.Random(1)
    weights = array.array("f", [seed.gauss(0, 0.5) for _ in range(4 * HIDDEN + 1)])  # for each hidden unit: two inputs, bias, output
    own = random.Random(me.rank + 2)
    examples = [(own.random(), own.random()) for _ in range(EXAMPLES)]
    sums = array.array("f", bytes(4 * (len(weights) + 1)))  # the gradients, and the loss
    for step in range(args.steps):
        if step == args.steps // 2 and args.cut and me.rank == 0:
            subprocess.run(["ttfabric", "link", "down", args.cut], check=True, stdout=subprocess.DEVNULL)
        for i in range(len(sums)):
            sums[i] = 0
        for x, y in examples:
            units = [math.tanh(weights[4 * h] * x + weights[4 * h + 1] * y + weights[4 * h + 2]) for h in range(HIDDEN)]
            off = sum(u * weights[4 * h + 3] for h, u in enumerate(units)) + weights[-1] - x * y
            for h, u in enumerate(units):
                back = off * weights[4 * h + 3] * (1 - u * u)
                for i, g in enumerate((back * x, back * y, back, off * u)):
                    sums[4 * h + i] += g
            sums[-2] += off
            sums[-1] += off * off
        ranks.all_reduce(sums)
        for i in range(len(weights)):
            weights[i] -= RATE / (EXAMPLES * ranks.size) * sums[i]
    if me.rank == 0:
        print(f"loss {sums[-1] / (EXAMPLES * ranks.size):.9g}, weights {hashlib.sha256(weights).hexdigest()[:16]}")
    ranks.barrier()
