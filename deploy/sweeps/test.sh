#!/usr/bin/env bash
# Tests the sweep over Ray in an environment of its own. NEARLIGHT_BIN names the program.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=2.60.0
environment=$(realpath -m "${CARGO_TARGET_DIR:-target}")/ray-$version
if ! "$environment/bin/python" -c "import ray" 2>/dev/null; then
  echo "test.sh: installing Ray $version from PyPI into $environment" >&2
  rm -rf "$environment"
  "${PYTHON:-/usr/bin/python3}" -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check "ray==$version"
fi
# Neither statistics nor a dashboard.
export RAY_USAGE_STATS_ENABLED=0 PYTHONDONTWRITEBYTECODE=1
exec "$environment/bin/python" deploy/sweeps/test_ray_sweep.py
