package controllerset

import (
	"testing"
	"time"

	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/reconcile/controllers"
)

// Every controller that there is can be chosen.
func TestEveryControllerIsMade(t *testing.T) {
	known := controllers.KnownControllers()
	for _, k := range known {
		if makers[k.Name] == nil {
			t.Errorf("nobody makes %s", k.Name)
		}
	}
	if len(known) != len(makers) {
		t.Errorf("%d are made, %d are known", len(makers), len(known))
	}
}

// TestTuning checks that each setting reaches its own controller.
func TestTuning(t *testing.T) {
	c := &Config{Options: Options{Tuning: Tuning{
		NodeGrace: 7 * time.Second, NodeStartupGrace: 8 * time.Second, Evictions: controllers.EvictionLimits{Rate: 1, SlowRate: 2, Unhealthy: 0.3, Large: 4},
		SliceEndpoints: 5, MirroredEndpoints: 6, EndpointsBatch: time.Second, SlicesBatch: 2 * time.Second, MirrorsBatch: 3 * time.Second,
	}}}
	e := &Env{Caches: &caches.Caches{}, config: c}
	node := e.nodeLifecycleConfig()
	if node.Grace != 7*time.Second || node.StartupGrace != 8*time.Second || node.Limits != c.Tuning.Evictions {
		t.Errorf("%v %v %+v", node.Grace, node.StartupGrace, node.Limits)
	}
	got := [3]time.Duration{e.legacyEndpointsConfig().BatchPeriod, e.endpointSliceConfig().BatchPeriod, e.endpointSliceMirrorConfig().BatchPeriod}
	if want := [3]time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if slices, mirrors := e.endpointSliceConfig().MaxEndpoints, e.endpointSliceMirrorConfig().MaxEndpoints; slices != 5 || mirrors != 6 {
		t.Errorf("%d endpoints, %d mirrored", slices, mirrors)
	}
}
