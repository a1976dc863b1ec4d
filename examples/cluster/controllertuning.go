package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/planekit/planekit/plane/controllerset"
	"github.com/planekit/planekit/reconcile/controllers/node"
	"github.com/spf13/pflag"
)

// tuning holds the concurrency and the timeouts of controllers. The flags have the names, the
// defaults and the limits of kube-controller-manager.
type tuning struct {
	// workers has, by the name of a flag, how many objects are worked on at a time.
	workers map[string]*int

	nodeGrace, nodeStartupGrace time.Duration
	evictions                   node.EvictionLimits
	endedPods                   int
	sliceEndpoints              int
	mirroredEndpoints           int
	// How long changes wait for those that follow.
	endpointsBatch, slicesBatch, mirrorsBatch time.Duration
}

// workerFlags say how many workers controllers have. Where kube-controller-manager
// lets there be none, which is a controller that does nothing, one is the least.
var workerFlags = []struct {
	name, controller string
	standard         int
	most             int // 0 is any
	objects          string
}{
	{"concurrent-deployment-syncs", "deployment-controller", 5, 0, "deployments"},
	{"concurrent-endpoint-syncs", "endpoints-controller", 5, 0, "services whose endpoints"},
	{"concurrent-gc-syncs", "garbage-collector-controller", 20, 0, "objects whose owners"},
	{"concurrent-job-syncs", "job-controller", 5, 0, "jobs"},
	{"concurrent-namespace-syncs", "namespace-controller", 10, 0, "namespaces that go"},
	{"concurrent-rc-syncs", "replicationcontroller-controller", 5, 0, "replication controllers"},
	{"concurrent-replicaset-syncs", "replicaset-controller", 5, 0, "replica sets"},
	{"concurrent-resource-quota-syncs", "resourcequota-controller", 5, 0, "resource quotas"},
	{"concurrent-service-endpoint-syncs", "endpointslice-controller", 5, 50, "services whose endpoint slices"},
	{"concurrent-serviceaccount-token-syncs", "serviceaccount-token-controller", 5, 0, "secrets with tokens"},
	{"concurrent-ttl-after-finished-syncs", "ttl-after-finished-controller", 5, 0, "jobs that are over"},
	{"mirroring-concurrent-service-endpoint-syncs", "endpointslice-mirroring-controller", 5, 50, "services whose endpoints are made by hand"},
}

func (t *tuning) add(flags *pflag.FlagSet) {
	t.workers = make(map[string]*int, len(workerFlags))
	for _, f := range workerFlags {
		t.workers[f.name] = flags.Int(f.name, f.standard, "how many "+f.objects+" are looked after at a time")
	}
	flags.DurationVar(&t.nodeGrace, "node-monitor-grace-period", 50*time.Second, "how long a node may be silent before it is marked as not ready")
	flags.DurationVar(&t.nodeStartupGrace, "node-startup-grace-period", time.Minute, "how long a node that has never been ready may be silent")
	flags.Float64Var(&t.evictions.Rate, "node-eviction-rate", 0.1, "how many silent nodes a second pods are driven off, in one zone")
	flags.Float64Var(&t.evictions.SlowRate, "secondary-node-eviction-rate", 0.01, "the same in a zone most of which is silent; none if it is small")
	flags.Float64Var(&t.evictions.Unhealthy, "unhealthy-zone-threshold", 0.55, "share of nodes not ready, three at least, from which on most of a zone is silent")
	flags.IntVar(&t.evictions.Large, "large-cluster-size-threshold", 50, "how many nodes a zone may have and be small")
	flags.IntVar(&t.endedPods, "terminated-pod-gc-threshold", 12500, "how many pods that have ended are kept; all of them if it is not positive")
	flags.IntVar(&t.sliceEndpoints, "max-endpoints-per-slice", 100, "how many endpoints an endpoint slice has at most")
	flags.DurationVar(&t.endpointsBatch, "endpoint-updates-batch-period", 0, "how long a change of a pod waits until endpoints are written, together with those that follow")
	flags.DurationVar(&t.slicesBatch, "endpointslice-updates-batch-period", 0, "how long a change of a pod waits until endpoint slices are written, together with those that follow")
	flags.DurationVar(&t.mirrorsBatch, "mirroring-endpointslice-updates-batch-period", 0, "how long a change of a mirrored endpoint slice waits until it is looked at, together with those that follow")
	flags.IntVar(&t.mirroredEndpoints, "mirroring-max-endpoints-per-subset", 1000, "how many addresses of a subset of endpoints made by hand are mirrored at most")
}

func (t *tuning) check() error {
	var wrong []error
	for _, f := range workerFlags {
		switch n := *t.workers[f.name]; {
		case n < 1:
			wrong = append(wrong, fmt.Errorf("--%s must be greater than 0, but got %d", f.name, n))
		case f.most > 0 && n > f.most:
			wrong = append(wrong, fmt.Errorf("--%s must not be more than %d, but got %d", f.name, f.most, n))
		}
	}
	e := &t.evictions
	for _, f := range []struct {
		wrong bool
		text  string
	}{
		{t.nodeGrace <= 0, "--node-monitor-grace-period must be positive"},
		{t.nodeStartupGrace <= 0, "--node-startup-grace-period must be positive"},
		{!(e.Rate >= 0), "--node-eviction-rate must not be negative"},
		{!(e.SlowRate >= 0), "--secondary-node-eviction-rate must not be negative"},
		{!(e.Unhealthy >= 0 && e.Unhealthy <= 1), "--unhealthy-zone-threshold must be between 0 and 1"},
		{e.Large < 0, "--large-cluster-size-threshold must not be negative"},
		{t.endpointsBatch < 0, "--endpoint-updates-batch-period must not be negative"},
		{t.slicesBatch < 0, "--endpointslice-updates-batch-period must not be negative"},
		{t.mirrorsBatch < 0, "--mirroring-endpointslice-updates-batch-period must not be negative"},
		{t.sliceEndpoints < 1 || t.sliceEndpoints > 1000, "--max-endpoints-per-slice must be between 1 and 1000"},
		{t.mirroredEndpoints < 1 || t.mirroredEndpoints > 1000, "--mirroring-max-endpoints-per-subset must be between 1 and 1000"},
	} {
		if f.wrong {
			wrong = append(wrong, errors.New(f.text))
		}
	}
	return errors.Join(wrong...)
}

// settings returns what the flags mean to the controllers.
func (t *tuning) settings() controllerset.Tuning {
	workers := map[string]int{}
	for _, f := range workerFlags {
		workers[f.controller] = *t.workers[f.name]
	}
	return controllerset.Tuning{
		Workers: workers, NodeGrace: t.nodeGrace, NodeStartupGrace: t.nodeStartupGrace, Evictions: t.limits(), EndedPods: t.keptPods(),
		SliceEndpoints: t.sliceEndpoints, MirroredEndpoints: t.mirroredEndpoints,
		EndpointsBatch: t.endpointsBatch, SlicesBatch: t.slicesBatch, MirrorsBatch: t.mirrorsBatch,
	}
}

// limits are the limits as the controller has them, for which zero is what
// Kubernetes has, and less than zero is zero.
func (t *tuning) limits() node.EvictionLimits {
	e := t.evictions
	for _, v := range []*float64{&e.Rate, &e.SlowRate, &e.Unhealthy} {
		if *v == 0 {
			*v = -1
		}
	}
	if e.Large == 0 {
		e.Large = -1
	}
	return e
}

// keptPods is the number of pods that have ended to keep, as the controller has it.
func (t *tuning) keptPods() int {
	if t.endedPods <= 0 {
		return -1
	}
	return t.endedPods
}
