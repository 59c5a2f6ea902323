#!/bin/sh
# Makes the first pods one cluster, or adds those that are new. It is run in the pod of the coordinator,
# which is hypostyle-0 at first: kubectl exec hypostyle-0 -- sh /etc/hypostyle/scripts/join.sh 3
set -eu
count=$1
# Who is in the pod may do everything.
run() {
    hypostyle hypostyle+unix:///run/hypostyle/socket --csv --no-header --quiet -c "$1"
}

known=$(run "SHOW CLUSTER" 2>/dev/null) || {
    run "ALTER CLUSTER PROMOTE node${POD_NAME##*-}"
    known=$(run "SHOW CLUSTER")
}
number=0
while [ "$number" -lt "$count" ]; do
    case "$known" in
    "node$number",* | *"
node$number",*) ;;
    *) run "ALTER CLUSTER ADD NODE node$number ADDRESS 'hypostyle-$number.hypostyle.$POD_NAMESPACE.svc.cluster.local:4953'" ;;
    esac
    number=$((number + 1))
done
run "SHOW CLUSTER"
