#!/bin/sh
# A member of a training job of the chaos harness: counts steps, saves on USR1 and ends; goes on from there with --resume.
saved=0
if [ -r "$CHAOS/saved.$TIDEGATE_JOB.$RANK" ]; then saved=$(cat "$CHAOS/saved.$TIDEGATE_JOB.$RANK"); fi
step=0
if [ "$1" = --resume ]; then step=$saved; fi
say() { echo "$1 $TIDEGATE_RUN $RANK $step $saved" >> "$CHAOS/training.$TIDEGATE_JOB"; }
say begin
save() {
  echo $step > "$CHAOS/saved.$TIDEGATE_JOB.$RANK.new" &&
    mv "$CHAOS/saved.$TIDEGATE_JOB.$RANK.new" "$CHAOS/saved.$TIDEGATE_JOB.$RANK" && saved=$step && say saved
  exit 0
}
trap save USR1
while :; do
  step=$((step + 1))
  sleep 0.1
done
