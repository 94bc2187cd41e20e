#!/bin/sh
# A member of the demo's training. It learns nothing but counts steps. On USR1 it saves, which takes
# a second, and ends; with --resume it goes on from the saved step, with any number of members.
mkdir -p "$CHECKPOINT"
step=0
if [ "$1" = --resume ] && [ -r "$CHECKPOINT/step" ]; then step=$(cat "$CHECKPOINT/step"); fi
echo "rank $RANK of $WORLD_SIZE, device $CUDA_VISIBLE_DEVICES: begins at step $step"

save() {
  sleep 1
  if [ "$RANK" = 0 ]; then
    echo "$step" > "$CHECKPOINT/step.new"
    mv "$CHECKPOINT/step.new" "$CHECKPOINT/step"
  fi
  echo "saved at step $step"
  exit 0
}
trap save USR1

while :; do
  step=$((step + 1))
  sleep 0.5
done
