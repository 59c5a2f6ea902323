#!/bin/sh
# Writes the configuration of the node that this pod is, and serves it: node0 in the pod hypostyle-0.
set -eu
umask 077
number=${POD_NAME##*-}
directory=/run/hypostyle

cat > "$directory/cluster.toml" <<CONFIGURATION
name = "node$number"
listen = "0.0.0.0:4953"
address = "$POD_NAME.hypostyle.$POD_NAMESPACE.svc.cluster.local:4953"
credentials = "/etc/hypostyle/secrets/cluster.password"

[tls]
certificate = "/etc/hypostyle/tls/tls.crt"
key = "/etc/hypostyle/tls/tls.key"
authorities = "/etc/hypostyle/tls/ca.crt"
CONFIGURATION

# The signals of the pod are the program's.
exec hypostyle serve /data/main.hypo \
    --cluster "$directory/cluster.toml" \
    --unix "$directory/socket" \
    --pgwire 0.0.0.0:5432 \
    --metrics 0.0.0.0:9464 \
    --users /etc/hypostyle/secrets/users \
    --temp-directory /tmp \
    --stop-timeout 30 \
    --log-json
