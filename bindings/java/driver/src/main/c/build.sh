#!/bin/sh
# Compiles the glue, and lays it out as the driver's jar has it, with its digest: build.sh FOLDER JAVA_HOME [LIBRARY].
# A library that is given comes beside it.
set -eu
folder=$1 java=$2 library=${3:-}
source=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
"${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared -Wl,-z,relro,-z,now \
    -I"$java/include" -I"$java/include/linux" -I"$source/../../../../../c/include" \
    "$source"/*.c -ldl -o "$folder/libhypostyle_jni.so"
rm -f "$folder/libhypostyle.so.1" "$folder/libhypostyle.so.1.sha256"
[ -z "$library" ] || cp "$library" "$folder/libhypostyle.so.1"
cd "$folder"
for file in *.so *.so.1; do
    [ ! -f "$file" ] || sha256sum "$file" | cut -d' ' -f1 >"$file.sha256"
done
