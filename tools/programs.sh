#!/usr/bin/env bash
# Sees to the programs the tests of mounts drive. Never fails: tests that lack one skip and say which.
set -euo pipefail
declare -A package=([fusermount3]=fuse3 [fio]=fio [sqlite3]=sqlite3 [git]=git [gcc]=gcc [setfattr]=attr [rsync]=rsync
  [slapd]=slapd [ldapadd]=ldap-utils)
# A whole Slurm cluster with its database, and GlusterFS, only where they are asked for: they bring daemons along.
if [ -n "${FAIRLEAD_TEST_SLURM:-}" ]; then
  package+=([slurmctld]=slurmctld [slurmd]=slurmd [sbatch]=slurm-client [slurmdbd]=slurmdbd [munged]=munge
    [mariadbd]=mariadb-server [glusterd]=glusterfs-server [mount.glusterfs]=glusterfs-client [mpirun]=openmpi-bin)
  [ -e /usr/lib/"$(uname -m)"-linux-gnu/slurm-wlm/accounting_storage_mysql.so ] ||
    package+=([no-such-program]=slurm-wlm-mysql-plugin)
fi
lacking=()
for program in "${!package[@]}"; do
  command -v "$program" >/dev/null || lacking+=("${package[$program]}")
done
[ ${#lacking[@]} = 0 ] && exit 0
command=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${lacking[@]}")
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "some tests of mounts will be skipped; to run them: sudo apt-get install ${lacking[*]}" >&2
  exit 0
fi
echo "installing ${lacking[*]} for the tests of mounts" >&2
apt-get update -qq || true
"${command[@]}" >/dev/null || echo "could not be installed: some tests of mounts will be skipped" >&2
