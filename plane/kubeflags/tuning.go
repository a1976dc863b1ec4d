package kubeflags

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/plane/controllerset"
	"github.com/planekit/planekit/reconcile/controllers/autoscale"
	"github.com/planekit/planekit/reconcile/controllers/node"
)

// tuning holds the flags of the concurrency and the timeouts of controllers.
type tuning struct {
	// workers holds the numbers of workers by the name of the flag.
	workers map[string]*int

	nodeGrace, nodeStartupGrace time.Duration
	evictions                   node.EvictionLimits
	endedPods                   int
	sliceEndpoints              int
	mirroredEndpoints           int
	// How long a change waits for more changes.
	endpointsBatch, slicesBatch, mirrorsBatch time.Duration
	volumeResync                              time.Duration
	autoscaling                               autoscale.Tuning
}

// workerFlags set the numbers of workers. The minimum is 1, also where kube-controller-manager accepts
// 0, with which the controller does nothing.
var workerFlags = []struct {
	name, controller string
	standard         int
	most             int // 0 means no limit
	objects          string
}{
	{"concurrent-deployment-syncs", "deployment-controller", 5, 0, "deployments"},
	{"concurrent-endpoint-syncs", "endpoints-controller", 5, 0, "services, by the controller of endpoints,"},
	{"concurrent-ephemeralvolume-syncs", "ephemeral-volume-controller", 5, 0, "pods with ephemeral volumes"},
	{"concurrent-gc-syncs", "garbage-collector-controller", 20, 0, "objects, by the garbage collector,"},
	{"concurrent-horizontal-pod-autoscaler-syncs", "horizontal-pod-autoscaler-controller", 5, 0, "horizontal pod autoscalers"},
	{"concurrent-job-syncs", "job-controller", 5, 0, "jobs"},
	{"concurrent-namespace-syncs", "namespace-controller", 10, 0, "terminating namespaces"},
	{"concurrent-rc-syncs", "replicationcontroller-controller", 5, 0, "replication controllers"},
	{"concurrent-replicaset-syncs", "replicaset-controller", 5, 0, "replica sets"},
	{"concurrent-resource-quota-syncs", "resourcequota-controller", 5, 0, "resource quotas"},
	{"concurrent-service-endpoint-syncs", "endpointslice-controller", 5, 50, "services, by the controller of endpoint slices,"},
	{"concurrent-serviceaccount-token-syncs", "serviceaccount-token-controller", 5, 0, "secrets with tokens"},
	{"concurrent-ttl-after-finished-syncs", "ttl-after-finished-controller", 5, 0, "finished jobs"},
	{"concurrent-validating-admission-policy-status-syncs", "validatingadmissionpolicy-status-controller", 5, 0, "validating admission policies, by the check of types,"},
	{"mirroring-concurrent-service-endpoint-syncs", "endpointslice-mirroring-controller", 5, 50, "services with custom endpoints"},
}

func (t *tuning) add(flags *pflag.FlagSet) {
	t.workers = make(map[string]*int, len(workerFlags))
	for _, f := range workerFlags {
		t.workers[f.name] = flags.Int(f.name, f.standard, "how many "+f.objects+" are synced at the same time")
	}
	flags.DurationVar(&t.nodeGrace, "node-monitor-grace-period", 50*time.Second, "how long a node may send no heartbeat before it is marked as not ready")
	flags.DurationVar(&t.nodeStartupGrace, "node-startup-grace-period", time.Minute, "the same for a node that has never been ready")
	flags.Float64Var(&t.evictions.Rate, "node-eviction-rate", 0.1, "nodes that are not ready from which pods are evicted, per second, in one zone")
	flags.Float64Var(&t.evictions.SlowRate, "secondary-node-eviction-rate", 0.01, "the same in a zone that is unhealthy; none are evicted if the zone is small")
	flags.Float64Var(&t.evictions.Unhealthy, "unhealthy-zone-threshold", 0.55, "share of nodes that are not ready, at least three, from which on a zone is unhealthy")
	flags.IntVar(&t.evictions.Large, "large-cluster-size-threshold", 50, "up to how many nodes a zone is small")
	flags.IntVar(&t.endedPods, "terminated-pod-gc-threshold", 12500, "how many terminated pods are kept; all of them if it is not positive")
	flags.IntVar(&t.sliceEndpoints, "max-endpoints-per-slice", 100, "maximum number of endpoints in an endpoint slice")
	flags.DurationVar(&t.endpointsBatch, "endpoint-updates-batch-period", 0, "how long a change of a pod waits for more changes before endpoints are written")
	flags.DurationVar(&t.slicesBatch, "endpointslice-updates-batch-period", 0, "how long a change of a pod waits for more changes before endpoint slices are written")
	flags.DurationVar(&t.mirrorsBatch, "mirroring-endpointslice-updates-batch-period", 0, "how long a change of a mirrored endpoint slice waits for more changes before it is synced")
	flags.DurationVar(&t.volumeResync, "pvclaimbinder-sync-period", 15*time.Second, "how often claims that wait for a volume are looked at again")
	a := &t.autoscaling
	flags.DurationVar(&a.Period, "horizontal-pod-autoscaler-sync-period", 15*time.Second, "how often the usage is compared with the targets of a horizontal pod autoscaler")
	flags.DurationVar(&a.Stabilization, "horizontal-pod-autoscaler-downscale-stabilization", 5*time.Minute, "how long a horizontal pod autoscaler keeps the highest number of replicas that was recommended")
	flags.Float64Var(&a.Tolerance, "horizontal-pod-autoscaler-tolerance", 0.1, "by what part of the target the usage may differ from it before pods are scaled")
	flags.DurationVar(&a.Initialization, "horizontal-pod-autoscaler-cpu-initialization-period", 5*time.Minute, "how long after the start of a pod its CPU usage may not count")
	flags.DurationVar(&a.ReadinessDelay, "horizontal-pod-autoscaler-initial-readiness-delay", 30*time.Second, "how long after the start of a pod its readiness counts as the first")
	flags.IntVar(&t.mirroredEndpoints, "mirroring-max-endpoints-per-subset", 1000, "maximum number of addresses of a subset of custom endpoints that are mirrored")
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
		{t.volumeResync <= 0, "--pvclaimbinder-sync-period must be positive"},
		{t.autoscaling.Period <= 0, "--horizontal-pod-autoscaler-sync-period must be positive"},
		{t.autoscaling.Stabilization < 0, "--horizontal-pod-autoscaler-downscale-stabilization must not be negative"},
		{!(t.autoscaling.Tolerance >= 0), "--horizontal-pod-autoscaler-tolerance must not be negative"},
		{t.autoscaling.Initialization < 0, "--horizontal-pod-autoscaler-cpu-initialization-period must not be negative"},
		{t.autoscaling.ReadinessDelay < 0, "--horizontal-pod-autoscaler-initial-readiness-delay must not be negative"},
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

// settings returns the tuning of controllers that the flags describe.
func (t *tuning) settings() controllerset.Tuning {
	workers := map[string]int{}
	for _, f := range workerFlags {
		workers[f.controller] = *t.workers[f.name]
	}
	return controllerset.Tuning{
		Workers: workers, NodeGrace: t.nodeGrace, NodeStartupGrace: t.nodeStartupGrace, Evictions: t.limits(), EndedPods: t.keptPods(),
		SliceEndpoints: t.sliceEndpoints, MirroredEndpoints: t.mirroredEndpoints,
		EndpointsBatch: t.endpointsBatch, SlicesBatch: t.slicesBatch, MirrorsBatch: t.mirrorsBatch,
		VolumeResync: t.volumeResync, Autoscaling: t.autoscale(),
	}
}

// autoscale translates the times and the tolerance for [autoscale.Tuning], in which 0 means the default.
func (t *tuning) autoscale() autoscale.Tuning {
	a := t.autoscaling
	for _, v := range []*time.Duration{&a.Stabilization, &a.Initialization, &a.ReadinessDelay} {
		*v = max(*v, 1)
	}
	a.Tolerance = max(a.Tolerance, math.SmallestNonzeroFloat64)
	return a
}

// limits translates the limits for [node.EvictionLimits], in which 0 means the default and a negative
// number 0.
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

// keptPods translates the number of terminated pods to keep for [controllerset.Tuning], in which a
// negative number means all.
func (t *tuning) keptPods() int {
	if t.endedPods <= 0 {
		return -1
	}
	return t.endedPods
}
