#!/bin/sh
# What training does on this machine's GPU, in under five minutes, as one command:
#
#     bench/gpu_check.sh            # --tiny: the same on a CPU, with tiny sizes
#
# The results go to $OUT (bench/results/gpu), as gpu_check.txt and gpu_check.json. It needs the
# checkout and Python packages alone; what is missing is named. $PYTHON: which Python to use.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${PYTHON:-}" ]; then
  PYTHON=python3
  [ ! -x .venv/bin/python ] || PYTHON=.venv/bin/python
fi
missing=$("$PYTHON" -c '
from importlib.util import find_spec
names = "PIL filelock numpy pandas pyarrow pydantic safetensors scipy torch torchmetrics torchvision"
print(*[name for name in names.split() if find_spec(name) is None])')
if [ -n "$missing" ]; then
  echo "Missing in $PYTHON: $missing" >&2
  echo "  Fix: $PYTHON -m pip install $missing (PIL is called pillow there)" >&2
  exit 2
fi
PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}" exec "$PYTHON" bench/gpu_check.py \
  --out "${OUT:-bench/results/gpu}/gpu_check.txt" "$@"
