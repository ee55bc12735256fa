#!/bin/sh
# Make the samples again: ./make.sh CUOBJDUMP [NAME...]
# Needs nvcc and gcc on the PATH, and cuobjdump (PyPI: nvidia-cuda-cuobjdump).
# What cuobjdump lists is kept beside each sample as the answer that tests compare with.
set -eu
cd "$(dirname "$0")"
CUOBJDUMP=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/one.cu" <<'SOURCE'
extern "C" __global__ void scale(float *x, float a) { x[threadIdx.x] *= a; }
SOURCE
cat >"$work/two.cu" <<'SOURCE'
extern "C" __global__ void shift(float *x, float a) { x[threadIdx.x] += a; }
SOURCE
cat >"$work/part.cu" <<'SOURCE'
__device__ float twice(float x) { return x + x; }
SOURCE
cat >"$work/whole.cu" <<'SOURCE'
extern __device__ float twice(float x);
extern "C" __global__ void scale(float *x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
SOURCE

sass() { for n in "$@"; do printf -- '-gencode arch=compute_%s,code=sm_%s ' "$n" "$n"; done; }
ptx() { for n in "$@"; do printf -- '-gencode arch=compute_%s,code=compute_%s ' "$n" "$n"; done; }

# library NAME SOURCES... -- OPTIONS...: a stripped shared library without the CUDA runtime
library() {
    name=$1
    shift
    sources=
    while [ "$1" != -- ]; do
        sources="$sources $work/$1"
        shift
    done
    shift
    # shellcheck disable=SC2086
    nvcc -shared -cudart none --frandom-seed 1 -Xcompiler -fPIC -Xlinker -s,-z,noseparate-code \
        "$@" -o "$name" $sources
    answer "$name"
}

answer() {
    "$CUOBJDUMP" -all --list-elf --list-ptx "$1" >"$work/listing" 2>/dev/null
    sed -n '/ file /p' "$work/listing" >"$1.cuobjdump.txt"
}

# shellcheck disable=SC2046
{
    library plain.so one.cu -- $(sass 75 80 86 87 89 90 100 103 110 120 121) --compress-mode=size
    library suffixes.so one.cu -- $(sass 90a 100a 103a 120a 100f 120f) $(ptx 90a 100f) --compress-mode=size
    library ptx_only.so one.cu -- $(ptx 75)
    library lz4.so one.cu two.cu -- $(sass 80 90) $(ptx 80) --compress-mode=speed
    library zstd.so one.cu two.cu -- $(sass 80 90) $(ptx 80) --compress-mode=size
    library unpacked.so one.cu -- $(sass 80) $(ptx 80) --compress-mode=none
    library relocatable.so part.cu whole.cu -- -rdc=true $(sass 80 90) $(ptx 90) --compress-mode=size
    library linktime.so part.cu whole.cu -- -rdc=true -gencode arch=compute_90,code=lto_90 --compress-mode=size
}
nvcc -fatbin -o loose.fatbin $(sass 80 120) "$work/one.cu" && answer loose.fatbin
