# Makes the machine's containerd serve CRI. The first argument of the shell is the registry's address.
mkdir -p /etc/containerd/certs.d/$0
printf '%s\n' "server = \"http://$0\"" "[host.\"http://$0\"]" > /etc/containerd/certs.d/$0/hosts.toml
cat > /etc/containerd/config.toml <<EOF
version = 3
[plugins."io.containerd.cri.v1.images"]
  pinned_images.sandbox = "$0/pause:3.10.2"
  registry.config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/opt/cni/bin"]
EOF
systemctl stop docker.socket docker
systemctl restart containerd
crictl version | grep -x 'RuntimeName: *containerd'
