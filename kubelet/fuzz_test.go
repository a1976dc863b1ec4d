package kubelet

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
)

func FuzzParseLogins(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://r.example/v1/":{"auth":"dTpw"}}}`), "r.example/a:1")
	f.Fuzz(func(t *testing.T, data []byte, image string) {
		logins, err := parseLogins(&corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: data}})
		if err != nil && len(data) > 0 && strings.Contains(err.Error(), string(data)) && len(data) > 20 {
			t.Error("the error quotes the secret")
		}
		for registry, l := range logins {
			fits(registry, image)
			l.config(registry)
		}
	})
}

func TestCredentialsFit(t *testing.T) {
	for _, test := range []struct {
		registry, image string
		want            bool
	}{
		{"https://index.docker.io/v1/", "nginx", true}, {"docker.io", "nginx:1", true}, {"docker.io", "r.example/nginx", false},
		{"r.example", "r.example/a", true}, {"r.example/a", "r.example/a/b:1", true}, {"r.example/a", "r.example/ab", false},
		{"*.example", "r.example/a", true}, {"*.example", "r.s.example/a", false}, {"r.example:5000", "r.example/a", false},
	} {
		if got := fits(test.registry, test.image); got != test.want {
			t.Errorf("%s for %s: %t", test.registry, test.image, got)
		}
	}
}

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"nginx": corev1.PullAlways, "nginx:latest": corev1.PullAlways, "nginx:1": corev1.PullIfNotPresent,
		"r:5000/nginx": corev1.PullAlways, "nginx@sha256:0": corev1.PullIfNotPresent,
	} {
		if got := pullPolicy(&corev1.Container{Image: image}); got != want {
			t.Errorf("%s: %s", image, got)
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
