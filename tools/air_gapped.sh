#!/usr/bin/env bash
# Gathers all that a machine without network needs into one folder: tools/air_gapped.sh DIR (make wheelhouse).
# Wheels are taken from requirements.lock, their hashes checked here and again where they are installed (install.sh).
set -euo pipefail
out=${1:?usage: tools/air_gapped.sh DIR}
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}

mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -rf "$out/wheels"
mkdir "$out/wheels"

echo "gathering wheels for $("$python" -c 'import platform, sys; print(platform.machine(), "Python", "%d.%d" % sys.version_info[:2])')" >&2
"$python" -m pip --disable-pip-version-check --no-input -q download \
  --require-hashes --only-binary :all: --requirement "$root/requirements.lock" --dest "$out/wheels"
(cd "$root" && "$python" -m hatchling build -t wheel -d "$out/wheels" >/dev/null)
"$python" "$root/tools/agent.py" "$out/fairlead-agent.pyz" >/dev/null
cp "$root/requirements.lock" "$root/LICENSE" "$out/"
cp -r "$root/deploy/systemd" "$out/"

cat > "$out/install.sh" <<'INSTALL'
#!/usr/bin/env bash
# Installs fairlead from this folder into a new environment, without network: ./install.sh [DIR] (/opt/fairlead).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
into=${1:-/opt/fairlead}
python=${PYTHON:-python3}
(cd "$here" && sha256sum --quiet --check SHA256SUMS)
"$python" -m venv "$into"
pip() { PIP_NO_INDEX=1 "$into/bin/python" -m pip --isolated --disable-pip-version-check --no-input -q "$@"; }
pip install --no-index --find-links "$here/wheels" --require-hashes --only-binary :all: --requirement "$here/requirements.lock"
pip install --no-index --no-deps --force-reinstall "$here"/wheels/fairlead-*.whl
cp "$here/fairlead-agent.pyz" "$into/"
"$into/bin/fairlead" --version
INSTALL
chmod +x "$out/install.sh"

(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum > SHA256SUMS)
du -sh "$out" >&2
