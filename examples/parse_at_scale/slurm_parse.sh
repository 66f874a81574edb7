#!/usr/bin/env bash
# fairseq-syntax-parse as a Slurm array: one job a shard, then the merge.
#   N=64
#   job=$(sbatch --parsable --array=0-$((N - 1)) --gpus=1 slurm_parse.sh "$N" --lang en --input /shared/raw/train.en)
#   sbatch --dependency=afterok:"$job" slurm_parse.sh merge --lang en --input /shared/raw/train.en
# A shard that was killed is submitted again as it was (--array=7); it keeps what it has parsed.
#SBATCH --cpus-per-task=2
#SBATCH --mem=16G
#SBATCH --time=12:00:00
set -euo pipefail
if [ "$1" = merge ]; then
    fairseq-syntax-parse "${@:2}" --merge
else
    fairseq-syntax-parse "${@:2}" --num-shards "$1" --shard-id "$SLURM_ARRAY_TASK_ID"
fi
