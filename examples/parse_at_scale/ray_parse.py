"""fairseq-syntax-parse on all machines of a Ray cluster: one task a shard, then the merge.

    python ray_parse.py --num-shards 64 [--cpus 1] [--gpus 0] -- --lang en --input /shared/raw/train.en …

Options after -- are those of fairseq-syntax-parse; every machine must see the input. What a lost task has parsed is
kept: Ray starts the task again, and you may give the command again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import ray


def parse_shard(row: dict[str, int], command: list[str], num_shards: int) -> dict[str, int]:
    """Parse what is left of the shard whose number is the `id` of `row`."""
    shard = ["--num-shards", str(num_shards), "--shard-id", str(row["id"])]
    subprocess.run([*command, *shard], check=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--num-shards", type=int, required=True, help="some for each GPU or core, so that none waits long"
    )
    parser.add_argument("--cpus", type=float, default=1, help="cores of a task")
    parser.add_argument("--gpus", type=float, default=0, help="GPUs of a task")
    parser.add_argument("options", nargs="+", help="options of fairseq-syntax-parse, after --")
    args = parser.parse_args()
    command = [sys.executable, "-m", "syntax_data.commands.parse", *args.options]
    shards = ray.data.range(args.num_shards, override_num_blocks=args.num_shards)
    done = shards.map(
        parse_shard,
        fn_kwargs={"command": command, "num_shards": args.num_shards},
        num_cpus=args.cpus,
        num_gpus=args.gpus,
    ).materialize()
    print(f"{done.count()} shards are parsed")
    subprocess.run([*command, "--merge"], check=True)


if __name__ == "__main__":
    main()
