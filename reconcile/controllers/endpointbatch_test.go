package controllers_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/endpoints"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// TestEndpointsBatched has pods come one after the other: they are seen to together,
// when the first has waited for the period. A service does not wait.
func TestEndpointsBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEndpointWorld(t)
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			services, pods, written := follow(ctx, w.services, lag{}), follow(ctx, w.pods, lag{}), follow(ctx, w.slices, lag{})
			byNamespace := localcache.Scan(services, controllers.ByNamespace[*corev1.Service])
			podsByNamespace := localcache.Scan(pods, controllers.ByNamespace[*corev1.Pod])
			return []controllers.Runner{
				must[*endpoints.SliceController](t)(endpoints.NewSlices(endpoints.SliceConfig{
					Services: services, Pods: pods, Nodes: follow(ctx, w.nodes, lag{}), EndpointSlices: written,
					ServicesByNamespace: byNamespace, PodsByNamespace: podsByNamespace,
					SlicesByService: localcache.Scan(written, endpoints.ByService),
					Writer:          w.slices, BatchPeriod: 10 * time.Second,
				})),
				must[*endpoints.Controller](t)(endpoints.New(endpoints.Config{
					Services: services, Pods: pods, Endpoints: follow(ctx, w.endpoints, lag{}),
					ServicesByNamespace: byNamespace, PodsByNamespace: podsByNamespace,
					ServiceReader: w.services, Writer: w.endpoints, BatchPeriod: 10 * time.Second,
				})),
			}
		})
		put(w.services, newService("web", "web"))
		synctest.Wait()
		if len(w.slices.list()) != 1 || len(w.endpoints.list()) != 1 {
			t.Errorf("a new service waits: %v", w.wrote())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		before := len(w.wrote())
		for number := 1; number <= 3; number++ {
			put(w.pods, newEndpointPod(number, "web", 80))
			time.Sleep(3 * time.Second)
		}
		synctest.Wait()
		ours := func(write string) bool {
			return write == "create Pod p01" || write == "create Pod p02" || write == "create Pod p03"
		}
		if got := slices.DeleteFunc(w.wrote()[before:], ours); len(got) != 0 {
			t.Errorf("written before the period: %v", got)
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if got := slices.DeleteFunc(w.wrote()[before:], ours); len(got) != 2 {
			t.Errorf("written for three pods: %v", got)
		}
		w.convergedTo(t, "web", 3)
		p.stop(t)
	})
}

// TestMirrorBatched checks that Endpoints written by a user are mirrored at once, and that a
// foreign change of a slice is reverted at the end of the period.
func TestMirrorBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEndpointWorld(t)
		put(w.services, byHand("db"))
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			written := follow(ctx, w.slices, lag{})
			return []controllers.Runner{must[*endpoints.Mirror](t)(endpoints.NewMirror(endpoints.MirrorConfig{
				Services: follow(ctx, w.services, lag{}), Endpoints: follow(ctx, w.endpoints, lag{}), EndpointSlices: written,
				SlicesByService: localcache.Scan(written, endpoints.ByService),
				Writer:          w.slices, BatchPeriod: 10 * time.Second,
			}))}
		})
		put(w.endpoints, handMade("db", 80, "10.0.0.1"))
		synctest.Wait()
		if len(w.slices.list()) != 1 {
			t.Fatal("endpoints made by hand wait")
		}
		time.Sleep(time.Minute)
		spoil := func() {
			w.slices.alter(t, keyOf(w.slices.list()[0]), func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil })
		}
		spoil()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if len(w.slices.list()[0].Endpoints) != 0 {
			t.Error("seen to before the period")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(w.slices.list()[0].Endpoints) != 1 {
			t.Error("not seen to after the period")
		}
		p.stop(t)
	})
}

// TestBatchPeriodChecked: no change can wait for less than no time.
func TestBatchPeriodChecked(t *testing.T) {
	w := newEndpointWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	services, pods, written := follow(ctx, w.services, lag{}), follow(ctx, w.pods, lag{}), follow(ctx, w.slices, lag{})
	byNamespace := localcache.Scan(services, controllers.ByNamespace[*corev1.Service])
	podsByNamespace := localcache.Scan(pods, controllers.ByNamespace[*corev1.Pod])
	byService := localcache.Scan(written, endpoints.ByService)
	for period, fine := range map[time.Duration]bool{-1: false, 0: true, time.Second: true} {
		_, first := endpoints.NewSlices(endpoints.SliceConfig{
			Services: services, Pods: pods, Nodes: follow(ctx, w.nodes, lag{}), EndpointSlices: written, ServicesByNamespace: byNamespace,
			PodsByNamespace: podsByNamespace, SlicesByService: byService, Writer: w.slices, BatchPeriod: period,
		})
		_, second := endpoints.New(endpoints.Config{
			Services: services, Pods: pods, Endpoints: follow(ctx, w.endpoints, lag{}), ServicesByNamespace: byNamespace,
			PodsByNamespace: podsByNamespace, ServiceReader: w.services, Writer: w.endpoints, BatchPeriod: period,
		})
		_, third := endpoints.NewMirror(endpoints.MirrorConfig{
			Services: services, Endpoints: follow(ctx, w.endpoints, lag{}), EndpointSlices: written,
			SlicesByService: byService, Writer: w.slices, BatchPeriod: period,
		})
		for _, err := range []error{first, second, third} {
			if (err == nil) != fine {
				t.Errorf("period %s: %v", period, err)
			}
		}
	}
}
