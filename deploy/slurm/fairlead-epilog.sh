#!/bin/sh
# Tells this node's agent that a job has ended: it reads its counters and sends everything now, in about a second.
# Use it as Epilog (on each node), or call it from one. It never fails a job and never waits for the agent.
# Agent: FAIRLEAD_AGENT, or the line below. Its settings are those of /etc/fairlead/agent.conf.
agent=${FAIRLEAD_AGENT:-/usr/local/bin/fairlead-agent.pyz}
{
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  "$agent" flush
} > /dev/null 2>&1
exit 0
