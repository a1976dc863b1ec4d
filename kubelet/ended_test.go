package kubelet_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// forgetful is a runtime that loses a sandbox, with its containers, as soon as it has stopped it.
type forgetful struct {
	kubelet.Runtime
	made atomic.Int64
}

func (f *forgetful) RunPodSandbox(ctx context.Context, in *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	f.made.Add(1)
	return f.Runtime.RunPodSandbox(ctx, in)
}

func (f *forgetful) StopPodSandbox(ctx context.Context, in *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	out, err := f.Runtime.StopPodSandbox(ctx, in)
	if err == nil {
		_, err = f.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: in.GetPodSandboxId()})
	}
	return out, err
}

// TestEndedPodStaysEnded checks that a pod that has ended does not run again when the runtime loses it
// before the pod that the kubelet reads says that it has ended.
func TestEndedPodStaysEnded(t *testing.T) {
	ends := memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{For: 10 * time.Second}
	}}
	inBubble(t, ends, func(t *testing.T, r *rig) {
		loses := &forgetful{Runtime: r.config.Runtime}
		r.config.Runtime = loses
		r.start()
		pod := webPod("once")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		r.api.create(pod)
		for range 2 {
			r.api.await(t, "once", "succeeded", func(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == corev1.PodSucceeded })
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if n := loses.made.Load(); n != 1 {
			t.Errorf("the pod ran %d times", n)
		}
	})
}
