package kubelet_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestMeters checks that meters are called with what the kubelet does, and how often.
func TestMeters(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		var mu sync.Mutex
		got := map[string]int{}
		note := func(what string, labels ...string) {
			mu.Lock()
			defer mu.Unlock()
			got[fmt.Sprint(what, labels)]++
		}
		r.config.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("10")}
		r.config.Meters = kubelet.Meters{
			Relisted:        func(time.Duration) { note("relisted") },
			ResizeRequested: func(resource, requirement, operation string) { note("requested", resource, requirement, operation) },
			// Of the ways in which the other pod goes, either may be seen first.
			ResizeAccepted: func(trigger string) {
				note("accepted", strings.Replace(trigger, "pod_terminated", "pods_removed", 1))
			},
			Resized: func(_ time.Duration, ok bool) { note("resized", fmt.Sprint(ok)) },
		}
		r.start()
		half, most := requirements("500m", "", "", ""), requirements("800m", "", "", "")
		r.api.create(sizedPod("web", half))
		r.api.create(sizedPod("other", requirements("300m", "", "", "")))
		r.api.await(t, "web", "half", has(half))
		r.api.await(t, "other", "running", running)
		r.api.resize("web", most) // beside other, there is no room
		r.api.await(t, "web", "deferred", pendingFor(corev1.PodReasonDeferred))
		if pending, progress := r.kubelet.Resizes(); pending[corev1.PodReasonDeferred] != 1 || progress != 0 {
			t.Errorf("pending %v, in progress %d", pending, progress)
		}
		r.api.delete("other", 0)
		r.api.await(t, "web", "most", has(most))
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if got["relisted[]"] < 10 {
			t.Errorf("%d lists in a minute", got["relisted[]"])
		}
		delete(got, "relisted[]")
		want := map[string]int{"requested[cpu requests increase]": 1, "accepted[pods_removed]": 1, "resized[true]": 1}
		if !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}
