package kubelet_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestManyCredentials: a pod that names one pull secret often, with many credentials for its image,
// has few of them tried while other pulls wait, each once, and its secret read once for each attempt.
func TestManyCredentials(t *testing.T) {
	var mu sync.Mutex
	var tried []string
	reads := 0
	r := newRig(t, memruntime.Config{Pull: func(_ context.Context, _ string, auth *runtimeapi.AuthConfig) error {
		mu.Lock()
		defer mu.Unlock()
		tried = append(tried, auth.GetUsername())
		return memruntime.ErrDenied
	}})
	var auths []string
	image := "registry.test"
	for i := range 100 {
		auths = append(auths, fmt.Sprintf(`"%s": {"username": "%d", "password": "p"}`, image, i))
		image += "/a"
	}
	secret := []byte(`{"auths":{` + strings.Join(auths, ",") + `}}`)
	r.config.Secrets = func(context.Context, string, string) (*corev1.Secret, error) {
		mu.Lock()
		defer mu.Unlock()
		reads++
		return &corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: secret}}, nil
	}
	r.start()
	pod := webPod("web")
	pod.Spec.Containers[0].Image = image
	for range 1000 {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: "pull"})
	}
	r.api.create(pod)
	r.api.await(t, "web", "refused", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Waiting != nil && strings.HasPrefix(pod.Status.ContainerStatuses[0].State.Waiting.Reason, "ErrImagePull")
	})
	mu.Lock()
	defer mu.Unlock()
	if slices.Sort(tried); len(tried) != 16 || len(slices.Compact(tried)) != len(tried) || reads > 1 {
		t.Errorf("%d credentials tried, %d reads of the secret; want 16 different ones of one read", len(tried), reads)
	}
}
