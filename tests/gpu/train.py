"""A training job on a real GPU for tests/gpu/check: multiplies matrices and counts steps. On USR1 it saves its step to
CHECKPOINT and ends; with --resume it goes on from there. It ends by itself after --steps.

With --measure SECONDS it prints the multiplications a second instead, and whether 60 GiB of memory can be had.
"""
import argparse
import os
import signal
import sys
import time

import torch


def save(step):
    path = os.environ["CHECKPOINT"]
    with open(path + ".new", "w") as file:
        file.write(str(step))
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--measure", type=float)
    args = parser.parse_args()
    wanted = []
    signal.signal(signal.SIGUSR1, lambda *_: wanted.append(True))
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def work(count):
        for _ in range(count):
            torch.matmul(a, b)
        torch.cuda.synchronize()

    work(10)
    if args.measure:
        start, count = time.monotonic(), 0
        while time.monotonic() - start < args.measure:
            work(50)
            count += 50
        rate = count / (time.monotonic() - start)
        try:
            torch.empty(60 << 30, dtype=torch.uint8, device="cuda")
            memory = "given"
        except torch.OutOfMemoryError:
            memory = "refused"
        print(f"rate {rate:.1f} memory {memory} sms {torch.cuda.get_device_properties(0).multi_processor_count}", flush=True)
        return
    step = 0
    if args.resume and os.path.exists(os.environ["CHECKPOINT"]):
        step = int(open(os.environ["CHECKPOINT"]).read())
    print(f"begins at step {step} on {os.environ.get('CUDA_VISIBLE_DEVICES')}", flush=True)
    while step < args.steps:
        work(100)
        step += 100
        if wanted:
            save(step)
            print(f"saved at step {step}", flush=True)
            sys.exit(0)
    save(step)
    print(f"done at step {step}", flush=True)


main()
