package kubeflags

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/plane/controllerset"
	"github.com/planekit/planekit/reconcile/controllers/node"
)

// TestTuningDefaults: they are those of kube-controller-manager 1.36.
func TestTuningDefaults(t *testing.T) {
	o, err := parse()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for name, n := range o.controllers.tuning.workers {
		got[name] = *n
	}
	want := map[string]int{
		"concurrent-deployment-syncs": 5, "concurrent-endpoint-syncs": 5, "concurrent-ephemeralvolume-syncs": 5, "concurrent-gc-syncs": 20,
		"concurrent-horizontal-pod-autoscaler-syncs": 5, "concurrent-job-syncs": 5,
		"concurrent-namespace-syncs": 10, "concurrent-rc-syncs": 5, "concurrent-replicaset-syncs": 5, "concurrent-resource-quota-syncs": 5,
		"concurrent-service-endpoint-syncs": 5, "concurrent-serviceaccount-token-syncs": 5, "concurrent-ttl-after-finished-syncs": 5,
		"concurrent-validating-admission-policy-status-syncs": 5,
		"mirroring-concurrent-service-endpoint-syncs":         5,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("workers %v, want %v", got, want)
	}
	tuned := o.controllers.tuning
	if tuned.endpointsBatch != 0 || tuned.slicesBatch != 0 || tuned.mirrorsBatch != 0 {
		t.Errorf("changes wait for %s, %s and %s", tuned.endpointsBatch, tuned.slicesBatch, tuned.mirrorsBatch)
	}
	if tuned.endedPods != 12500 || tuned.sliceEndpoints != 100 || tuned.mirroredEndpoints != 1000 {
		t.Errorf("%d pods, %d endpoints, %d mirrored", tuned.endedPods, tuned.sliceEndpoints, tuned.mirroredEndpoints)
	}
}

func TestTuningRefused(t *testing.T) {
	for _, test := range []struct{ arguments, want string }{
		{"--concurrent-gc-syncs 0", "--concurrent-gc-syncs must be greater than 0, but got 0"},
		{"--concurrent-job-syncs -1", "--concurrent-job-syncs must be greater than 0, but got -1"},
		{"--concurrent-service-endpoint-syncs 51", "--concurrent-service-endpoint-syncs must not be more than 50, but got 51"},
		{"--node-monitor-grace-period 0s", "--node-monitor-grace-period must be positive"},
		{"--node-startup-grace-period -1s", "--node-startup-grace-period must be positive"},
		{"--node-eviction-rate -0.1", "--node-eviction-rate must not be negative"},
		{"--secondary-node-eviction-rate nan", "--secondary-node-eviction-rate must not be negative"},
		{"--unhealthy-zone-threshold 1.1", "--unhealthy-zone-threshold must be between 0 and 1"},
		{"--large-cluster-size-threshold -1", "--large-cluster-size-threshold must not be negative"},
		{"--max-endpoints-per-slice 0", "--max-endpoints-per-slice must be between 1 and 1000"},
		{"--max-endpoints-per-slice 1001", "--max-endpoints-per-slice must be between 1 and 1000"},
		{"--mirroring-concurrent-service-endpoint-syncs 51", "--mirroring-concurrent-service-endpoint-syncs must not be more than 50, but got 51"},
		{"--horizontal-pod-autoscaler-sync-period 0s", "--horizontal-pod-autoscaler-sync-period must be positive"},
		{"--horizontal-pod-autoscaler-downscale-stabilization -1s", "--horizontal-pod-autoscaler-downscale-stabilization must not be negative"},
		{"--horizontal-pod-autoscaler-tolerance nan", "--horizontal-pod-autoscaler-tolerance must not be negative"},
		{"--horizontal-pod-autoscaler-cpu-initialization-period -1s", "--horizontal-pod-autoscaler-cpu-initialization-period must not be negative"},
		{"--horizontal-pod-autoscaler-initial-readiness-delay -1s", "--horizontal-pod-autoscaler-initial-readiness-delay must not be negative"},
		{"--pvclaimbinder-sync-period 0s", "--pvclaimbinder-sync-period must be positive"},
		{"--endpoint-updates-batch-period -1s", "--endpoint-updates-batch-period must not be negative"},
		{"--endpointslice-updates-batch-period -1s", "--endpointslice-updates-batch-period must not be negative"},
		{"--mirroring-endpointslice-updates-batch-period -1s", "--mirroring-endpointslice-updates-batch-period must not be negative"},
		{"--mirroring-max-endpoints-per-subset 0", "--mirroring-max-endpoints-per-subset must be between 1 and 1000"},
		{"--mirroring-max-endpoints-per-subset 1001", "--mirroring-max-endpoints-per-subset must be between 1 and 1000"},
	} {
		if _, err := parse(strings.Fields(test.arguments)...); err == nil || err.Error() != test.want {
			t.Errorf("%s: error %v, want %q", test.arguments, err, test.want)
		}
	}
	if _, err := parse("--concurrent-gc-syncs", "100", "--concurrent-service-endpoint-syncs", "50", "--unhealthy-zone-threshold", "1"); err != nil {
		t.Error(err)
	}
}

// TestNodeTuning: the flags about nodes reach the controller, in whose Config zero
// has another meaning.
func TestNodeTuning(t *testing.T) {
	for arguments, want := range map[string]node.LifecycleConfig{
		"": {Grace: 50 * time.Second, StartupGrace: time.Minute, Limits: node.EvictionLimits{Rate: 0.1, SlowRate: 0.01, Unhealthy: 0.55, Large: 50}},
		"--node-monitor-grace-period 7s --node-startup-grace-period 8s --node-eviction-rate 1 --secondary-node-eviction-rate 2 --unhealthy-zone-threshold 0.3 --large-cluster-size-threshold 4": {
			Grace: 7 * time.Second, StartupGrace: 8 * time.Second, Limits: node.EvictionLimits{Rate: 1, SlowRate: 2, Unhealthy: 0.3, Large: 4}},
		"--node-eviction-rate 0 --secondary-node-eviction-rate 0 --unhealthy-zone-threshold 0 --large-cluster-size-threshold 0": {
			Grace: 50 * time.Second, StartupGrace: time.Minute, Limits: node.EvictionLimits{Rate: -1, SlowRate: -1, Unhealthy: -1, Large: -1}},
	} {
		o, err := parse(strings.Fields(arguments)...)
		if err != nil {
			t.Fatal(err)
		}
		got := o.controllers.tuning.settings()
		if got.NodeGrace != want.Grace || got.NodeStartupGrace != want.StartupGrace || got.Evictions != want.Limits {
			t.Errorf("parse(%q) has NodeGrace %v, NodeStartupGrace %v and Evictions %+v, want %v, %v and %+v",
				arguments, got.NodeGrace, got.NodeStartupGrace, got.Evictions, want.Grace, want.StartupGrace, want.Limits)
		}
	}
	for arguments, want := range map[string]int{"": 12500, "--terminated-pod-gc-threshold 3": 3, "--terminated-pod-gc-threshold 0": -1, "--terminated-pod-gc-threshold -5": -1} {
		if o, err := parse(strings.Fields(arguments)...); err != nil || o.controllers.tuning.keptPods() != want {
			t.Errorf("%q: %d pods are kept, want %d: %v", arguments, o.controllers.tuning.keptPods(), want, err)
		}
	}
}

// TestBatchTuning: the flags about changes that wait reach the controllers, each its
// own.
func TestBatchTuning(t *testing.T) {
	o, err := parse("--endpoint-updates-batch-period", "1s", "--endpointslice-updates-batch-period", "2s", "--mirroring-endpointslice-updates-batch-period", "3s")
	if err != nil {
		t.Fatal(err)
	}
	tuned := o.controllers.tuning.settings()
	got := [3]time.Duration{tuned.EndpointsBatch, tuned.SlicesBatch, tuned.MirrorsBatch}
	if want := [3]time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestTuningHasAllWorkers: a controller whose workers a flag sets is one that there is.
func TestTuningHasAllWorkers(t *testing.T) {
	for _, f := range workerFlags {
		if !slices.Contains(controllerset.Names(), f.controller) {
			t.Errorf("--%s is of %s, which is no controller", f.name, f.controller)
		}
	}
}
