#!/bin/sh
# Makes the certificates of the nodes that are named, a directory for each below certificates/, and
# the authority that signs them, unless it is there already: ./certificates.sh node1 node2 node3
set -eu
cd "$(dirname "$0")"
umask 077
key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc"

if [ ! -f authority/ca.key ]; then
    mkdir -p authority
    # shellcheck disable=SC2086
    openssl req -x509 $key -days 3650 -subj "/CN=Hypostyle cluster" -keyout authority/ca.key -out authority/ca.pem
fi
for node in "$@"; do
    place=certificates/$node
    mkdir -p "$place"
    # Programs of this machine find the node by its port.
    printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n' "$node" \
        > "$place/extensions"
    # shellcheck disable=SC2086
    openssl req $key -subj "/CN=$node" -keyout "$place/node.key" -out "$place/request"
    openssl x509 -req -in "$place/request" -CA authority/ca.pem -CAkey authority/ca.key -CAcreateserial \
        -days 825 -extfile "$place/extensions" -out "$place/node.pem"
    rm "$place/request" "$place/extensions"
    cp authority/ca.pem "$place/ca.pem"
    # The user of the container is another one than that of this machine, and has to read them.
    chmod 755 certificates "$place"
    chmod 644 "$place"/*
done
