# The two commands of the README are cluster and test.

BIN := bin
# What the tests need beside a node's tools: the reference CNI plugins to drive
# and be compared with, ip and ps to look with, and a program and a font that draw the pictures.
TEST_TOOLS := containernetworking-plugins iproute2 procps librsvg2-bin fonts-dejavu-core
ARGS ?=
PROGRAMS := ./examples/cluster ./examples/planectl
ifeq ($(shell go env GOOS),linux)
PROGRAMS += ./cni/planekit-cni
endif

# How programs are built to be used, as Kubernetes' releases are: stripped, without
# C, and without gRPC's pages for debugging, for whose HTML templates the linker
# would keep every exported method there is.
BUILD := CGO_ENABLED=0 go build -trimpath -ldflags="-s -w"
TAGS := grpcnotrace
# The tests of compat and bench are built in the same way, so that Kubernetes' packages
# are compiled once, and not again for each way of building.
RELEASE := CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath -tags=$(TAGS)"

.PHONY: cluster apiserver test flakes build compat compat-tools bench

# Bring up a whole cluster; ARGS="--nodes 3" passes flags on.
cluster: build
	@scripts/install-node-tools
	@exec $(BIN)/cluster $(ARGS)

build:
	@[ -e $(BIN)/cluster ] || echo "building the programs; the first time takes a minute or two ..."
	@$(BUILD) -tags=$(TAGS) -o $(BIN)/ $(PROGRAMS)

# The API server alone, for an etcd outside: none is linked into it, nor a profiler.
apiserver:
	@$(BUILD) -tags=$(TAGS),noembed,noprofile -o $(BIN)/ ./examples/apiserver

# Everything: the figures of one quick run, then the library and the examples under
# the race detector, and the stock clients against them. All of it runs whatever
# fails; the names of what failed come last. The tests of examples/cluster mostly wait and take
# longest, so that they begin first.
test: compat-tools
	@scripts/install-node-tools $(TEST_TOOLS)
	@status=0; \
	$(RELEASE) go -C bench run ./cluster --runs 1 --peers=false || status=1; \
	go run ./internal/testreport -race -timeout 30m ./examples/cluster ./... \
		-- $(RELEASE) -run '^TestCosts$$' ./plane/planetest ./apiserver/crd \
		-- $(RELEASE) -C compat -timeout 30m ./... \
		-- $(RELEASE) -C bench -timeout 30m ./... || status=1; \
	exit $$status

# Tests that fail by chance: see scripts/flakes. It takes hours.
flakes: compat-tools
	@scripts/install-node-tools $(TEST_TOOLS)
	@scripts/flakes $(PACKAGES)

# The stock programs that the tests drive.
compat-tools: build
	@cd bench && $(BUILD) -tags=$(TAGS) -o ../$(BIN)/stock/ ./cmd/etcd ./cmd/kube-apiserver ./cmd/kube-controller-manager ./cmd/kube-scheduler ./cmd/kubelet
	@cd bench/cmd/coredns && $(BUILD) -tags=$(TAGS) -o ../../../$(BIN)/stock/ .

# The stock clients alone.
compat: compat-tools
	@go run ./internal/testreport $(RELEASE) -C compat -count=1 ./...

# The same pods on the stock kubelet and on ours, under either control plane; as root.
.PHONY: kubelets
kubelets: compat-tools
	@scripts/install-node-tools $(TEST_TOOLS)
	@CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath -tags=$(TAGS),kubelets" go test -C compat -count=1 -timeout 40m -v -run 'TestKubelets|TestStreams' .

# The CustomResourceDefinitions of well-known projects, which are downloaded, and random objects of them, beside Kubernetes'
# packages; ARGS="-objects 100" passes flags on.
.PHONY: definitions
definitions:
	@CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath -tags=$(TAGS),definitions" go test -C compat -count=1 -timeout 60m -v -run TestReal ./crd -large $(ARGS)

# Every request that kube-apiserver describes, to it and to a plane; ARGS="-all" compares messages and contents too.
.PHONY: walk
walk: compat-tools
	@CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath -tags=$(TAGS)" go test -C compat -count=1 -timeout 3h -v -run TestWalk ./walk -part 1 $(ARGS)

# Objects of every built-in kind with each of their fields changed, to kube-apiserver and to a plane; ARGS="-kinds pods" tries one.
.PHONY: strategies
strategies: compat-tools
	@CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath -tags=$(TAGS)" go test -C compat -count=1 -timeout 3h -v -run TestStrategies ./strategies -limit 0 -lines 2000 $(ARGS)

# The clients for JavaScript, which npm downloads; it needs Node.js.
.PHONY: npm-clients
npm-clients: build
	@CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath -tags=$(TAGS),npm" go test -C compat -count=1 -timeout 10m -v -run TestNPM .

# The integration suites of controller-runtime, which use envtest, on examples/envtest.
.PHONY: envtest-suites
envtest-suites:
	@scripts/envtest-suites $(ARGS)

# The figures of BENCHMARKS.md.
bench: build
	@go test -run '^$$' -bench . -benchmem ./...
	@scripts/bench-cluster
	@scripts/bench-load
	@scripts/bench-rollout
	@scripts/bench-fairness
	@scripts/bench-schedule

# An hour of random load and kills, which shows that memory, goroutines, files and disk stay flat;
# ARGS="-seed 42 -runtime containerd" passes flags on to bench/soak.
DURATION ?= 1h
.PHONY: soak
soak: build
	@go -C bench run ./soak -cluster ../bin/cluster -duration $(DURATION) $(ARGS)

# A thousand nodes with ten pods each in one process: docs/benchmarks/kubelet.md. It takes two minutes
# and 3 GiB of memory.
.PHONY: hollow
hollow:
	@go test -count=1 -timeout 20m -v -run TestHollow ./plane/planetest -hollow-nodes 1000 -hollow-idle 30s $(ARGS)

# The controllers killed at each write of each of their scenarios.
.PHONY: crashes
crashes:
	@go test -count=1 -timeout 60m -v -run TestPerturbed ./reconcile/controllers -crashes 100000 $(ARGS)

# A million plans of pods at random, each checked against what must never happen; ARGS adds flags.
PLANS ?= 1000000
.PHONY: plans
plans:
	@go test -count=1 -timeout 30m -v -run TestPlanModel ./kubelet/internal/lifecycle -plans $(PLANS) $(ARGS)

# Bodies of all kinds that multiply the lengths of their lists, up to the limit of 3 MiB, and objects that
# multiply with their schemas: none may take a second of processor time, or more than its size explains.
# ARGS="-run TestCosts/pods" searches one kind.
.PHONY: costs
costs:
	@go test -count=1 -timeout 3h -v -run 'TestCosts$$' ./plane/planetest ./apiserver/crd -costs $(ARGS)

# What volumes and pods are on containerd 2, which mounts images and makes mounts read-only
# recursively; as root. It is built from the module proxy, which takes about two minutes.
CONTAINERD2 := github.com/containerd/containerd/v2/cmd
CONTAINERD2_VERSION := v2.2.9
.PHONY: containerd2
containerd2:
	@scripts/install-node-tools
	@GOBIN=$(CURDIR)/$(BIN)/containerd2 go install $(foreach p,containerd containerd-shim-runc-v2 ctr,$(CONTAINERD2)/$(p)@$(CONTAINERD2_VERSION))
	@PATH="$(CURDIR)/$(BIN)/containerd2:$$PATH" go test -race -count=1 -timeout 10m -v -run 'TestContainerd$$/^(volumes|pods|busy|static|standalone)$$' ./kubelet

# Random pods on containerd while the kubelet, containerd, shims and sandboxes are killed, and
# everything at once: nothing of a pod is left, and what a fault does not concern runs on. Before, a pod whose containers
# restart a thousand times: nothing grows; as root.
LIVES ?= 500
RESTARTS ?= 1000
SEED ?= $(shell date +%s)
.PHONY: lives
lives:
	@scripts/install-node-tools
	@go test -count=1 -timeout 1h -v -run TestContainerdManyRestarts ./kubelet -restarts $(RESTARTS)
	@go test -race -count=1 -timeout 3h -v -run TestLives ./examples/cluster/lives -lives $(LIVES) -seed $(SEED) $(ARGS)

# One effect for each answer: clients append through two API servers while three stock etcd members are
# killed, paused and cut off, and porcupine looks for an order that explains every answer.
WRITES ?= 100000
.PHONY: effects
effects: compat-tools
	@$(RELEASE) go test -C compat -count=1 -timeout 3h -v -run TestEffects ./effects -writes $(WRITES) -limit 2h -seed $(SEED) $(ARGS)
