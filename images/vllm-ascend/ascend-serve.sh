#!/bin/bash
# CANN's libraries are found by variables that its own scripts set.
for script in /usr/local/Ascend/ascend-toolkit/set_env.sh /usr/local/Ascend/nnal/atb/set_env.sh; do
    # shellcheck disable=SC1090
    if [ -r "$script" ]; then . "$script"; fi
done
exec vllm serve "$@"
