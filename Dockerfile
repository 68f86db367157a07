# An image with criadapter and its OCI runtime, and no other file.
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t criadapter .
#
# criadapter uses the node's engine, network and mounts, so it needs the node's namespaces. Directories that it shares with
# the engine, the kubelet or the CNI plugins need the same path as on the node. /run/netns and /run/criadapter must be on
# shared mounts, or the node would not see the pods' namespaces. With systemd all of /run is shared; else run mount --bind
# /run/netns /run/netns && mount --make-shared /run/netns, and the same for /run/criadapter. The engine runs criadapter-oci
# from the node: docker cp "$(docker create criadapter)":/criadapter-oci /usr/bin
#
#   docker run --detach --name criadapter --restart always \
#     --privileged --pid host --network host --cgroupns host \
#     --volume /var/run/docker.sock:/var/run/docker.sock \
#     --volume /var/lib/docker:/var/lib/docker:rslave \
#     --volume /run/criadapter:/run/criadapter:rshared \
#     --volume /var/lib/criadapter:/var/lib/criadapter \
#     --volume /run/netns:/run/netns:rshared \
#     --volume /etc/cni/net.d:/etc/cni/net.d:ro \
#     --volume /opt/cni/bin:/opt/cni/bin:ro \
#     --volume /var/lib/cni:/var/lib/cni \
#     --volume /var/log/pods:/var/log/pods \
#     --volume /var/lib/kubelet:/var/lib/kubelet:rshared \
#     criadapter
#
# A hostPath that does not exist is made on the node only below a directory that is mounted here at the same path.
# Elsewhere the engine refuses the container: "bind source path does not exist". Let the kubelet make the directory (a
# hostPath of the type DirectoryOrCreate), or mount the directory above it here.
#
# The engine pulls images, with the node's CA certificates. Image policies and OCI artifacts need these
# certificates here as well, but this image has none: mount /etc/ssl/certs (on Fedora and its relatives /etc/pki), and
# /etc/docker/certs.d if it exists. The node's engine trusts the same certificates, and the node updates them.
#
# CNI plugins run inside this image, so they must be static programs. portmap (host ports) calls iptables: give a base image
# that has it with --build-arg BASE=….

ARG BASE=scratch

FROM golang:1.26 AS build
ARG VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make build VERSION="$VERSION"

FROM ${BASE}
ARG VERSION=unknown
LABEL org.opencontainers.image.title="criadapter" \
      org.opencontainers.image.description="Kubernetes CRI v1 server on top of Docker Engine" \
      org.opencontainers.image.source="https://github.com/criadapter/criadapter" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /src/build/criadapter /src/build/criadapter-oci /
ENTRYPOINT ["/criadapter"]
