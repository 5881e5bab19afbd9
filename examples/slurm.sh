#!/bin/bash
# A recipe on several machines under SLURM: sbatch examples/slurm.sh
# RECIPE, OUT, SHARD and PROCESSES (a machine's GPUs) may be set; further words go to `adlm train`:
#   RECIPE=owt-mdlm sbatch examples/slurm.sh --train.save_every 500
#SBATCH --job-name=adlm
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append

# Two minutes before the end SLURM sends SIGTERM: the run saves and leaves. Requeued or started again,
# the same script goes on, for --resume starts a run where there is none yet.
set -euo pipefail
RECIPE=${RECIPE:-owt-adlm}
FIRST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

srun --kill-on-bad-exit=1 torchrun \
    --nnodes "$SLURM_NNODES" --nproc-per-node "${PROCESSES:-8}" --max-restarts 3 --shutdown-timeout 100 \
    --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$FIRST:${PORT:-29500}" \
    -m adlm train "$RECIPE" --resume --out "${OUT:-runs/$RECIPE}" \
    --train.shard "${SHARD:-full}" --train.save_every 1000 "$@"
