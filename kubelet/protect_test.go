package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestProtect: nothing of a pod runs until its network is protected, at the address that it then has. A pod on the network of
// the host needs none.
func TestProtect(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		var mu sync.Mutex
		var calls []string
		containers := 0
		r.config.Protect = func(ctx context.Context, pod *corev1.Pod, addresses []netip.Addr) error {
			list, err := r.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, c := range list.Containers {
				if c.Labels["io.kubernetes.pod.name"] == pod.Name {
					containers++
				}
			}
			calls = append(calls, fmt.Sprint(pod.Name, addresses))
			if len(calls) < 3 {
				return errors.New("not yet")
			}
			return nil
		}
		r.start()
		r.api.create(webPod("web"))
		r.api.awaitEvent(t, "web", "NetworkNotReady", "network is not ready: the pod is not protected: not yet")
		pod := r.api.await(t, "web", "running", running)
		host := webPod("host")
		host.Spec.HostNetwork = true
		r.api.create(host)
		r.api.await(t, "host", "running", running)
		mu.Lock()
		defer mu.Unlock()
		want := "web[" + pod.Status.PodIP + "]"
		if len(calls) != 3 || calls[0] != want || calls[2] != want {
			t.Errorf("Protect was called as %v, want three times %s", calls, want)
		}
		if containers != 0 {
			t.Errorf("%d containers were there before the pod was protected, want 0", containers)
		}
	})
}
