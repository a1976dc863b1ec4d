# The two commands of the README are cluster and test.

BIN := bin
# What the tests need beside a node's tools: the reference CNI plugins to drive
# and be compared with, and ip and ps to look with.
TEST_TOOLS := containernetworking-plugins iproute2 procps
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

.PHONY: cluster apiserver test build compat compat-tools bench

# Bring up a whole cluster; ARGS="--nodes 3" passes flags on.
cluster: build
	@scripts/install-node-tools
	@exec $(BIN)/cluster $(ARGS)

build:
	@$(BUILD) -tags=$(TAGS) -o $(BIN)/ $(PROGRAMS)

# The API server alone, for an etcd outside: none is linked into it, nor a profiler.
apiserver:
	@$(BUILD) -tags=$(TAGS),noembed,noprofile -o $(BIN)/ ./examples/apiserver

# Everything: the library and the examples under the race detector, then the
# stock clients against them, then the figures of one quick run.
test: compat-tools
	@scripts/install-node-tools $(TEST_TOOLS)
	@go run ./internal/testreport -race -timeout 30m ./...
	@cd compat && go run ../internal/testreport -timeout 30m ./...
	@cd bench && go run ../internal/testreport ./... && go run ./cluster --runs 1 --peers=false

# The stock programs that the tests drive.
compat-tools: build
	@cd compat && $(BUILD) -o ../$(BIN)/ ./cmd/...
	@cd bench && $(BUILD) -tags=grpcnotrace -o ../$(BIN)/stock/ ./cmd/etcd ./cmd/kube-apiserver ./cmd/kube-controller-manager

# The stock clients alone.
compat: compat-tools
	@cd compat && go run ../internal/testreport -count=1 ./...

# The figures of BENCHMARKS.md.
bench: build
	@go test -run '^$$' -bench . -benchmem ./...
	@scripts/bench-cluster
	@scripts/bench-load
	@scripts/bench-rollout
