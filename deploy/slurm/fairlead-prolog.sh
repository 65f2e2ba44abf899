#!/bin/sh
# Tells fairlead that a job begins or ends: one small file, renamed into place, in the folder a `[[feeds.slurm]]` reads.
# Use it as PrologSlurmctld and EpilogSlurmctld (once a job, on the controller), or as Prolog and Epilog (on each node;
# the folder must then be on a file system the collector sees). It never fails a job and never waits for anything.
# Folder: FAIRLEAD_HOOKS, or the line below.
folder=${FAIRLEAD_HOOKS:-/var/spool/fairlead/hooks}
{
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  job=$SLURM_JOB_ID
  # An ending is told from a beginning by Slurm's own word for it, else by what only an epilog is given.
  case ${1:-$SLURM_SCRIPT_CONTEXT} in
    *rolog*) kind=prolog ;;
    *pilog*) kind=epilog ;;
    *) if [ -n "$SLURM_JOB_EXIT_CODE2$SLURM_JOB_EXIT_CODE" ]; then kind=epilog; else kind=prolog; fi ;;
  esac
  plain() { [ "$1" = "(null)" ] || printf '%s' "$1" | LC_ALL=C tr -c 'A-Za-z0-9._,@/+:\[\]-' '_'; }
  if [ -n "$job" ] && [ -d "$folder" ]; then
    name="$job.$kind.$(plain "${SLURMD_NODENAME:-ctl}").$$"
    now=$(date +%s.%N 2>/dev/null)
    case $now in *[!0-9.]* | '') now=$(date +%s) ;; esac
    umask 022
    printf '%s %s job=%s cluster=%s user=%s account=%s partition=%s nodes=%s node=%s start=%s array=%s name=%s\n' \
      "$now" "$kind" "$job" "$(plain "$SLURM_CLUSTER_NAME")" "$(plain "$SLURM_JOB_USER")" \
      "$(plain "$SLURM_JOB_ACCOUNT")" "$(plain "$SLURM_JOB_PARTITION")" "$(plain "$SLURM_JOB_NODELIST")" \
      "$(plain "$SLURMD_NODENAME")" "$(plain "$SLURM_JOB_START_TIME")" \
      "$(plain "$SLURM_ARRAY_JOB_ID${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}")" "$(plain "$SLURM_JOB_NAME")" \
      > "$folder/.$name" && mv -f "$folder/.$name" "$folder/$name.hook"
  fi
} > /dev/null 2>&1
exit 0
