# criadapter as an image with nothing but the program and its OCI runtime.
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t criadapter .
#
# It works on the node's engine, network and mounts, so it needs the node's namespaces, and every folder that it shares
# with the engine, the kubelet or the CNI plugins under the same path as on the node. /run/netns and /run/criadapter must
# be on shared mounts, as with systemd all of /run is (else: mount --bind /run/netns /run/netns && mount --make-shared
# /run/netns, and the same of the other), or the node would not see the pods' namespaces. The engine runs criadapter-oci
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
# The CNI plugins run inside of this image: they must be static programs, and portmap (host ports) calls iptables. A base
# image that has it is given with --build-arg BASE=….

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
