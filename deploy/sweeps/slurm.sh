#!/usr/bin/env bash
# A plan of the lab as a Slurm array, one task per shard, on nodes that share this folder:
#
#     sbatch --array=1-64 deploy/sweeps/slurm.sh plans/vrcc-stable.toml --seeds 100
#
# and when the array has ended:
#
#     target/release/nearlight-lab lab merge results/vrcc-stable-shard-*-of-64
#
# A task that was killed is repeated with `SHARDS=64 sbatch --array=NUMBER ...`; it continues with the runs that are missing. Slurm takes about a second for
# each task: choose shards that run for minutes.
#SBATCH --job-name=nearlight-lab
#SBATCH --cpus-per-task=1
#SBATCH --requeue
#SBATCH --output=results/slurm-%A-%a.log
set -euo pipefail
plan=${1:?name a plan, such as plans/vrcc-stable.toml}
shift
: "${SLURM_ARRAY_TASK_ID:?start this as an array: sbatch --array=1-64 $0 $plan}"
# The shards are numbered from 1 without gaps, also where a single one is repeated: SHARDS says how many there are then.
shards=${SHARDS:-$SLURM_ARRAY_TASK_MAX}
exec "${NEARLIGHT:-target/release/nearlight-lab}" lab run "$plan" --shard "$SLURM_ARRAY_TASK_ID/$shards" --threads 1 "$@"
