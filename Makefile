# `make` lists the targets. All of them work on a fresh clone with Go, make, git and a C compiler. Targets that run
# containers also need root and a Docker Engine of 20.10 or later.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  = -s -w -X main.version=$(VERSION)
# grpc's page of traces uses templates. Without them the linker drops uncalled methods: 4 MB.
# NRI plugins in WebAssembly need an engine for it: 2.3 MB, and 1.2 MB of memory at rest.
TAGS     = grpcnotrace,nri_no_wasm
FUZZTIME ?= 5s
BENCH     ?= .
BENCHTIME ?= 1s
PUREPARTS = ./state ./docker/translate ./server
PKG      ?= ./...
OUT       = build/
SOURCES   = $$(find . -path ./build -prune -o -name '*.go' -print)
DEADCODE  = go tool -modfile=test/tools/go.mod deadcode
# What tests of several packages share. No program uses it.
SHARED    = ^(test|docker/dockertest|internal/testutil|internal/pause/image.go|kubelet/[a-z/]*test)[/:]
GCI       = go tool -modfile=test/tools/go.mod gci
GROUPS    = -s standard -s default -s 'prefix(github.com/criadapter/criadapter)'
comma    := ,

# What the compiler makes is the same in every checkout, so that each finds it in the compiler's cache.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

.DEFAULT_GOAL := help
.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build build/criadapter, criadapter-oci and kubelet-core, static and stripped
	CGO_ENABLED=0 go build $(BUILDFLAGS) -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(OUT) ./cmd/criadapter ./cmd/criadapter-oci ./cmd/kubelet-core

.PHONY: release
release: ## Make packages, tarballs, images, SBOMs and checksums in build/release, for amd64 and arm64; SIGN=key signs them, and VEX=file of make vex
	@go build -o build/bin/release ./packaging/release
	@build/bin/release $(if $(filter command line environment,$(origin VERSION)),-version '$(VERSION)') $(if $(SIGN),-sign '$(SIGN)') $(if $(VEX),-vex '$(VEX)')

VULNDB ?= https://vuln.go.dev
.PHONY: vex
vex: ## Write build/vex.json: the known vulnerabilities of linked modules, and whether the code reaches them (OpenVEX)
	@mkdir -p build
	go tool -modfile=test/tools/go.mod govulncheck -db '$(VULNDB)' -format openvex ./cmd/... > build/vex.json.new
	@mv build/vex.json.new build/vex.json

.PHONY: verify
verify: ## Verify the signed release in DIR (build/release) by the public key KEY
	@go build -o build/bin/release ./packaging/release
	@build/bin/release -verify '$(or $(DIR),build/release)' -key '$(KEY)'

# ENGINE names the engine for every target that runs the rig: installed, 25-overlay2, 29-overlay2, 29-containerd, 29-cgroup2,
# or the path of a dockerd; make test takes several, with commas between. RUNTIME_MODE=oci has servers make pods without a
# sandbox container, RUNTIME_MODE=container with one each. REGISTRATION=shim has engines find the OCI runtime by the name of
# its shim, REGISTRATION=daemon.json by a line of daemon.json, which is the default. Both take one value for all engines, or one
# for each of a list. The rig reads them from the environment, where make puts what its command line sets.
.PHONY: engines
engines: rig ## Build the engines that are not installed into the cache, for ENGINE=25-overlay2, 29-overlay2, 29-containerd, 29-cgroup2
	@build/bin/rig engines

# Programs that start others are built and then run: `go run` passes on neither signals nor exit codes.
.PHONY: rig
rig:
	@go build -o build/bin/rig ./test/rig

.PHONY: test
test: rig ## Run every test; HALF=private|system for one half, PKG=./package for one package, RUN=pattern for some tests, ENGINE=name,name for other engines, REGISTRATION=shim or daemon.json for the OCI runtime
	@build/bin/rig test $(if $(CACHED),-cached) $(if $(RUN),-run '$(value RUN)') $(PKG)

.PHONY: unit
unit: ## Run the tests that need neither an engine nor root, and say what this leaves out; PKG=./package for one package
	@go run ./test/unit $(PKG)

.PHONY: chaos
chaos: rig ## Kill criadapter at each step of each request, hurt the engine and its network, churn pods; SEED=n repeats faults, CHURN=15m lasts longer
	@CHAOS=full build/bin/rig test -v -norace -timeout $(if $(CHURN),12h,40m) -run '$(or $(RUN),^Test(StepWalk|EngineAnswersBadly|EngineDies|NetworkFails|Churn)$$)' ./test/chaos

.PHONY: e2e
e2e: rig ## Run pods through the kubelet core, every test by its name; RUNTIME=criadapter, containerd or both, RUN=pattern
ifeq ($(or $(RUNTIME),criadapter),criadapter)
	@build/bin/rig test -v -run '$(RUN)' ./test/kubelet
else
	@go build -o build/bin/differences ./test/kubelet/differences
	@build/bin/differences -runtimes $(if $(filter both,$(RUNTIME)),criadapter$(comma)containerd,$(RUNTIME)) -run '$(RUN)'
endif

.PHONY: podman-manifests
podman-manifests: rig ## Play the manifests of podman's own tests, and compare with docs/reports/podman-manifests.md; PODMAN=v5.8.0 for another version
	@PODMAN=$(or $(PODMAN),v5.8.0) build/bin/rig test -v -run '^TestPodmanManifests$$' ./test/kubelet

.PHONY: e2e-cluster
e2e-cluster: ## Run a real control plane, and the real kubelet and the kubelet core on criadapter; RUN=pattern for some steps
	@go build -o build/bin/e2e-cluster ./test/cluster/run
	@build/bin/e2e-cluster $(if $(CACHED),-cached) $(if $(RUN),-run '$(value RUN)')

# CLUSTER are flags that choose the nodes of a cluster.
CLUSTER = $(if $(NODE2),-node2 $(NODE2)) $(if $(FAMILY),-family $(FAMILY)) $(if $(NETWORK),-network $(NETWORK))

.PHONY: cluster
cluster: ## Make a cluster of two nodes with kubeadm, and leave it running; DOWN=1 removes it, CHECK=1 tries it and removes it, with RUN=pattern for some steps; FAMILY=dual or ipv6, NETWORK=calico or cilium, NODE2=containerd, RUNTIME_MODE=oci
	@go build -o build/bin/cluster ./test/cluster/kubeadm
	@build/bin/cluster $(if $(CACHED),-cached) $(if $(DOWN),-down) $(if $(CHECK),-check) $(if $(RUN),-run '$(value RUN)') $(CLUSTER)

.PHONY: conformance
conformance: ## Run Kubernetes' own specs with the real kubelet; SET=name, FOCUS=pattern, SERVER=containerd, KUBELET=1.34, NODE=kubelet-core, ENGINE=name, FAST=1 for minutes; SET=certified runs the certified suite on make cluster's cluster, with FAMILY, NETWORK, NODE2, RUNTIME_MODE as there
ifeq ($(SET),certified)
	@go build -o build/bin/cluster ./test/cluster/kubeadm
	@build/bin/cluster $(if $(CACHED),-cached) -certified $(if $(FOCUS),-focus '$(value FOCUS)') $(CLUSTER)
else
	@go build -o build/bin/conformance ./test/conformance
	@build/bin/conformance $(if $(CACHED),-cached) -set $(if $(FAST),fast,$(or $(SET),node-conformance)) $(if $(FOCUS),-focus '$(value FOCUS)') $(if $(SERVER),-server $(SERVER)) $(if $(KUBELET),-kubelet $(KUBELET)) $(if $(NODE),-node $(NODE))
endif

.PHONY: load
load: ## Fill a node through the real kubelet, on criadapter and its peers; PODS=number, SERVERS=name,name for some, NODES=kubelet,kubelet-core for these on criadapter, ENGINE=name, QUICK=1
	@go build -o build/bin/load ./test/load
	@build/bin/load $(if $(CACHED),-cached) $(if $(QUICK),-quick) $(if $(PODS),-pods $(PODS)) $(if $(SERVERS),-servers $(SERVERS)) $(if $(NODES),-nodes $(NODES))

.PHONY: soak
soak: ## Hurt a node under a cluster's workload and compare the API server's events with what ran; HOURS=0.5, SEED=n repeats, ENGINE=name
	@go build -o build/bin/soak ./test/soak
	@build/bin/soak $(if $(CACHED),-cached) $(if $(HOURS),-hours $(HOURS)) $(if $(SEED),-seed $(SEED))

.PHONY: package-test
package-test: ## Install, upgrade, remove and purge the packages on a Debian machine with running pods; RUN=pattern for some
	@go build -o build/bin/packages ./test/packages
	@build/bin/packages $(if $(CACHED),-cached) $(if $(RUN),-run '$(value RUN)')

.PHONY: image-test
image-test: ## Make the image and run a pod with it, on the same machine
	@$(MAKE) --no-print-directory package-test RUN='^(Install|PodsComeUp|Upgrade|Image)$$'

.PHONY: e2e-takeover
e2e-takeover: ## Move a node from the real cri-dockerd to criadapter and back while its pods run; CORE=1 takes the kubelet core
	@go build -o build/bin/e2e-takeover ./test/takeover/run
	@build/bin/e2e-takeover $(if $(CACHED),-cached) $(if $(CORE),-kubelet-core) $(if $(RUN),-run '$(value RUN)')

.PHONY: vm
vm: ## Run a command on an emulated Debian node with the tree's deb, RUN="command", or SET=critest, commands, fields, conformance, reboot, power, clock or take-over; MACHINE=selinux or arm64, ENGINE=name, CUTS=number, ARGS=critest's
ifeq ($(SET),conformance)
	@$(MAKE) --no-print-directory conformance NODE=vm SET=
else
	@go build -o build/bin/vm ./test/vm
	@build/bin/vm $(if $(CACHED),-cached) -run "$$RUN" -set '$(SET)' $(if $(MACHINE),-machine '$(MACHINE)') $(if $(CUTS),-cuts $(CUTS)) $(if $(ARGS),-critest-args '$(value ARGS)')
endif

.PHONY: lint
lint: ## Check sources, words, commits of a change and workflows, and run go vet, staticcheck, deadcode and govulncheck
	@unformatted=$$(gofmt -l $(SOURCES) && $(GCI) list $(GROUPS) $(SOURCES)) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted, make fmt does it:" >&2; echo "$$unformatted" >&2; exit 1; fi
	go vet ./...
	go tool -modfile=test/tools/go.mod staticcheck ./...
	go tool -modfile=test/tools/go.mod actionlint
	@dead=$$($(DEADCODE) -test ./...) && unused=$$($(DEADCODE) ./...) || exit 1; \
	unused=$$(echo "$$unused" | grep -vE '$(SHARED)'); \
	if printf '%s\n' "$$dead" "$$unused" | grep .; then echo "dead: delete it, or move it to the tests that use it" >&2; exit 1; fi
	@go run ./test/words $(if $(BASE),-base '$(BASE)')
	@go build -o build/bin/vuln ./test/vuln
	@build/bin/vuln

.PHONY: fmt
fmt: ## Format the sources: gofmt, and imports in three groups (standard, others', ours)
	gofmt -w $(SOURCES)
	@$(GCI) write $(GROUPS) $(SOURCES) 2>/dev/null

.PHONY: run
run: build ## Bring up examples/pod.yaml on the local engine and serve; ONCE=1 removes the pod and exits
	@go build -o build/bin/run ./test/run
	@build/bin/run $(if $(ONCE),-once)

.PHONY: critest
critest: ## Run the whole critest suite against criadapter; GVISOR=1 with gVisor's runsc
	@go build -o build/bin/critest ./test/critest
	@build/bin/critest $(if $(CACHED),-cached) $(if $(GVISOR),-gvisor)

.PHONY: oci-suite
oci-suite: ## Run upstream's validation of OCI runtimes, runc's own tests and Docker Engine's own tests of containers, with runc alone and behind criadapter-oci; SET=validation, bats or moby for one
	@go build -o build/bin/ocisuite ./test/ocisuite
	@build/bin/ocisuite $(if $(SET),-set $(SET))

.PHONY: bench
bench: ## Measure criadapter beside its peers, and pure parts; QUICK=1 for three minutes, PARTS=lives,exec,… for some, PARTS=stress,critest for suites of others, PARTS=scale for thousands of containers and images
	@go build -o build/bin/bench ./test/bench
	@build/bin/bench $(if $(QUICK),-quick) $(if $(PARTS),-parts $(PARTS))
ifndef PARTS
	go test -run '^$$' -bench '$(BENCH)' -benchtime $(if $(QUICK),20ms,$(BENCHTIME)) $(PUREPARTS)
endif

.PHONY: figures
figures: ## Draw the figures and tables of docs/ from what make bench, conformance and load measured last
	go run ./test/bench/draw $(foreach dir,$(wildcard build/bench),-from $(dir)) $(foreach dir,$(wildcard build/conformance build/load),-$(notdir $(dir)) $(dir))

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME, PKG=./package for one package, RESUME=1 to leave out what passed; the logs are in build/fuzz, and an input that fails stays in its package's testdata/fuzz, to be committed with the fix
	@go build -o build/bin/fuzz ./test/fuzz
	@build/bin/fuzz -time $(FUZZTIME) $(if $(RESUME),-resume) $(PKG)

.PHONY: clean
clean: ## Remove build/
	rm -rf build
