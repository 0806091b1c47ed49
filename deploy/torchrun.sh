#!/bin/bash
# Training under torchrun; run this on every host with the same secret. docs/clusters.md
#
#   export SHADE_SECRET=$(openssl rand -hex 32)      draw it once and set the same value on all hosts
#   deploy/torchrun.sh NODES THIS_NODE FIRST_HOST RECIPE.toml [options]
set -euo pipefail
[ $# -ge 4 ] || { echo "usage: $0 NODES THIS_NODE FIRST_HOST RECIPE.toml [options]" >&2; exit 2; }
: "${SHADE_SECRET:?ranks on several hosts need the same secret: export SHADE_SECRET=\$(openssl rand -hex 32)}"
nodes=$1 node=$2 first=$3 recipe=$4
shift 4
exec torchrun --nnodes "$nodes" --node-rank "$node" --nproc-per-node "${RANKS_PER_NODE:-2}" \
  --master-addr "$first" --master-port "${MASTER_PORT:-29500}" --no-python \
  shade train "$recipe" --shard zero3 "$@"
