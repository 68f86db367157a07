# Adds or removes the manifest of one of four pods every three seconds, for ever.
set -u
cd /etc/kubelet-core/manifests
number=0
while :; do
	number=$(((number + 1) % 4))
	name=churn$number
	if [ -e $name.yaml ]; then
		rm $name.yaml
	else
		sed "s/name: web,/name: $name,/" /mnt/web.yaml > .$name
		sync .$name
		mv .$name $name.yaml
	fi
	sleep 3
done
