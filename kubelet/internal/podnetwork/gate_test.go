package podnetwork_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/internal/podnetwork"
)

// runtime has a network once it has got a range of pod addresses.
type runtime struct {
	mu   sync.Mutex
	cidr string
}

func (r *runtime) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: r.cidr != "", Reason: "NoRange"},
	}}}, nil
}

func (r *runtime) UpdateRuntimeConfig(_ context.Context, in *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cidr = in.GetRuntimeConfig().GetNetworkConfig().GetPodCidr()
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}

// TestGate: the gate opens once the Node has a range and the network is set up with it, which is tried again.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun, tries, changes := &runtime{}, time.Now(), 0, 0
		gate := podnetwork.New(podnetwork.Config{
			Runtime: r, Learn: func(*runtimeapi.StatusResponse) {}, Changed: func() { changes++ },
			Node: func(context.Context) (*corev1.Node, error) {
				node := &corev1.Node{}
				if time.Since(begun) >= time.Minute {
					node.Spec.PodCIDR, node.Spec.PodCIDRs = "10.61.0.0/24", []string{"10.61.0.0/24", "fd61::/64"}
				}
				return node, nil
			},
			SetUp: func(_ context.Context, cidr string) error {
				if tries++; tries < 3 {
					return errors.New("not yet")
				}
				return nil
			},
		})
		if gate.IsOpen() || gate.Reason() != "container runtime status check may not have completed yet" {
			t.Errorf("at first: %s", gate.Reason())
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go gate.Run(ctx)
		time.Sleep(30 * time.Second)
		if want := "container runtime network not ready: NetworkReady=false reason:NoRange message:"; gate.IsOpen() || gate.Reason() != want {
			t.Errorf("without a range: %s", gate.Reason())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if !gate.IsOpen() || r.cidr != "10.61.0.0/24,fd61::/64" || tries != 3 || changes != 2 {
			t.Errorf("open %v with %q after %d tries and %d changes", gate.IsOpen(), r.cidr, tries, changes)
		}
	})
}
