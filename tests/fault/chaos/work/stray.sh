#!/bin/sh
# stray.sh FILE: leaves a process whose parent is gone, and its pid in FILE.
(/bin/sh -c 'echo $$ >> "$0"; exec sleep 600' "$1" > /dev/null 2>&1 < /dev/null &)
