# Compares the records, leases, namespaces and containers of a node with its pods, and containers' CRI logs with the
# engine's logs. Prints the differences, and fails if there are any.
set -u
state=$(mktemp -d)
trap 'rm -r "$state"' EXIT
cd "$state"

kubelet-core get pods --output json 2>/dev/null > pods || exit 1
grep -o '"uid": *"[^"]*"' pods | cut -d '"' -f 4 | sort -u > uids
label() { docker inspect --format "{{index .Config.Labels \"$2\"}}" "$1"; }

# Every container belongs to a pod.
docker ps --all --quiet --no-trunc --filter label=io.kubernetes.pod.uid > containers
while read -r id; do
	uid=$(label "$id" io.kubernetes.pod.uid)
	grep -qxF "$uid" uids || echo "container $id belongs to pod $uid, which is gone"
done < containers >> wrong

# Each pod in the pod network has one lease and one namespace, and there are no others. Each sandbox has a record, and
# each record a sandbox.
crictl pods --quiet --no-trunc > sandboxes
crictl pods --quiet --no-trunc --state ready > ready
for id in $(cat ready); do
	crictl inspectp "$id" | grep -q '"network": "NODE"' || echo "$id"
done > networked
wanted=$(wc -l < networked)
for kind in "lease /var/lib/cni/networks/pods/[0-9]*" "namespace /run/netns/*"; do
	set -- $kind
	shift
	[ -e "$1" ] || shift
	[ $# = "$wanted" ] || { echo "$kind: $# for $wanted pods with a network: $*"; ls -l "$@"; grep -H . "$@"; }
done >> wrong
find /var/lib/criadapter -name '*.json' -not -path '*/cni/*' > records
for id in $(cat sandboxes); do
	grep -q "$id" records || echo "sandbox $id has no record"
done >> wrong
while read -r record; do
	id=$(basename "$record" .json)
	[ ${#id} != 64 ] || grep -qxF "$id" sandboxes || echo "record $record belongs to no sandbox"
done < records >> wrong

# Each line in the engine's log of a container is in its CRI log.
docker ps --all --quiet --no-trunc --filter label=io.kubernetes.docker.type=container > logged
while read -r id; do
	path=$(label "$id" io.kubernetes.container.logpath)
	docker logs "$id" > out 2> err
	for stream in out err; do
		sed -n "s/^[^ ]* std$stream [FP] //p" "$path" > "have$stream" || echo "container $id has no log $path"
		grep -vxF -f "have$stream" $stream > missing
		[ ! -s missing ] || echo "lines of $id missing in $path: $(wc -l < missing), the first is $(head -n 1 missing)"
	done
done < logged >> wrong

cat wrong
[ ! -s wrong ]
