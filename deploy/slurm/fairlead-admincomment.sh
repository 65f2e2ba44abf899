#!/bin/sh
# Writes one line of fairlead's figures into Slurm's AdminComment of a job that ended. Use it as EpilogSlurmctld, after
# fairlead-prolog.sh (several: EpilogSlurmctld=/etc/slurm/epilogctld.d/*). It works in the background: Slurm never waits
# for it, and it never fails a job. A comment that somebody else wrote stays.
# FAIRLEAD: the program; FAIRLEAD_SERVER, FAIRLEAD_TOKEN_FILE: where it asks (else the server of this machine);
# FAIRLEAD_WAIT_S: how long the job's summary is waited for, at most 270 (Slurm forgets a job after MinJobAge).
job=$SLURM_JOB_ID
case $job in '' | *[!0-9]*) exit 0 ;; esac
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin${FAIRLEAD_PATH:+:$FAIRLEAD_PATH}
export PATH
program=${FAIRLEAD:-fairlead}
wait_s=${FAIRLEAD_WAIT_S:-240}
case $wait_s in '' | *[!0-9]*) wait_s=240 ;; esac
[ "$wait_s" -le 270 ] || wait_s=270
write() {
  set -- "$job"
  [ -z "$SLURM_CLUSTER_NAME" ] || set -- "$@" --cluster "$SLURM_CLUSTER_NAME"
  line=$(timeout -k 5 "$((wait_s + 20))" "$program" -q seff "$@" --line --wait "$wait_s") || exit 0
  case $line in "fairlead: "*) ;; *) exit 0 ;; esac
  old=$(timeout -k 5 20 scontrol show job -o "$job" | sed -n 's/.* AdminComment=\(.*\)$/\1/p')
  case $old in '' | "fairlead: "*) ;; *) exit 0 ;; esac
  timeout -k 5 20 scontrol update "JobId=$job" "AdminComment=$line"
}
if [ "$1" = work ]; then
  write
else
  # In a session of its own before this returns: Slurm kills what is left in the epilog's.
  setsid --wait sh -c '"$0" work &' "$0" < /dev/null > /dev/null 2>&1
fi
exit 0
