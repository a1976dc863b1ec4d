package kubelet

import (
	"testing"

	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
)

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"nginx": corev1.PullAlways, "nginx:latest": corev1.PullAlways, "nginx:1": corev1.PullIfNotPresent,
		"r:5000/nginx": corev1.PullAlways, "nginx@sha256:0": corev1.PullIfNotPresent,
	} {
		if got := (&neededImage{reference: image}).pullPolicy(); got != want {
			t.Errorf("pullPolicy of %s = %s, want %s", image, got, want)
		}
	}
}

func TestQoSFigures(t *testing.T) {
	for milli, want := range map[int64]int64{0: 2, 1: 2, 100: 102, 1000: 1024, 10000000: 262144} {
		if got := qos.CPUShares(milli); got != want {
			t.Errorf("shares of %dm: %d", milli, got)
		}
	}
	for milli, want := range map[int64]int64{0: 0, 1: 1000, 10: 1000, 500: 50000, 2000: 200000} {
		if got := qos.CPUQuota(milli); got != want {
			t.Errorf("quota of %dm: %d", milli, got)
		}
	}
	for request, want := range map[int64]int64{0: 999, 500: 500, 1000: 3, 1: 999} {
		if got := qos.OOMScoreAdj(corev1.PodQOSBurstable, request, 1000); got != want {
			t.Errorf("oom score for %d of 1000: %d", request, got)
		}
	}
	if qos.OOMScoreAdj(corev1.PodQOSGuaranteed, 1, 1) != -997 || qos.OOMScoreAdj(corev1.PodQOSBestEffort, 1, 1) != 1000 {
		t.Error("oom scores")
	}
}
