#!/bin/sh
# A batch job of the chaos harness: works for $SECONDS_OF_WORK and ends well. With $STRAY it leaves a process behind that
# gave up its session, environment, outputs and parent.
say() { echo "$1 $TIDEGATE_RUN $$ $(date +%s.%N)" >> "$CHAOS/batch.$TIDEGATE_JOB"; }
say begin
if [ -n "$STRAY" ]; then setsid env -i /bin/sh "$CHAOS/work/stray.sh" "$CHAOS/strays.$TIDEGATE_RUN"; fi
sleep "$SECONDS_OF_WORK"
say end
exit 0
