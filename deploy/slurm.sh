#!/bin/bash
# Training on several nodes, one rank per GPU or per socket: sbatch deploy/slurm.sh RECIPE.toml
# The same script continues after a failure or the end of the allocation. docs/clusters.md
#SBATCH --job-name=shade
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120       # the run saves its last step and ends
#SBATCH --requeue
##SBATCH --gpus-per-task=1      # with GPUs: remove one '#'
set -euo pipefail

recipe=${1:?usage: sbatch deploy/slurm.sh RECIPE.toml [options]}
shift

# One secret per start, readable only by its owner, in a folder that all nodes share. It is deleted however the script
# ends; one that a killed node left behind (SIGKILL) is replaced when the job is requeued.
secret=$SLURM_SUBMIT_DIR/.shade-secret-$SLURM_JOB_ID
trap 'rm -f "$secret"' EXIT
rm -f "$secret"
(umask 077 && set -C && openssl rand -hex 32 > "$secret")
export SHADE_SECRET_FILE=$secret

export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK   # since Slurm 22.05 a step doesn't take over the job's number by itself

srun --ntasks-per-node=1 --ntasks="$SLURM_NNODES" shade doctor --self-test false
srun shade train "$recipe" --shard zero3 --threads "$SLURM_CPUS_PER_TASK" "$@"
