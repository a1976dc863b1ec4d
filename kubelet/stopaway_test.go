package kubelet_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// StopPods waits for a runtime that is being restarted.
func TestStopPodsWhileRuntimeRestarts(t *testing.T) {
	var away atomic.Int32
	r := newRig(t, memruntime.Config{Intercept: func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if _, ok := in.(*runtimeapi.ListPodSandboxRequest); ok && away.Load() > 0 {
			away.Add(-1)
			return nil, status.Error(codes.Unavailable, "restarting")
		}
		return next(ctx, in)
	}})
	r.start()
	r.api.create(webPod("web"))
	r.api.await(t, "web", "running", running)
	r.stop()
	away.Store(3)
	if err := r.kubelet.StopPods(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(r.sandboxes()); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
}
