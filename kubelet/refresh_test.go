package kubelet_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestRefreshAfterRestart: volumes of pods that run already follow their sources after the kubelet was
// restarted, so that tokens in them do not expire.
func TestRefreshAfterRestart(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		var contents atomic.Value
		contents.Store("old")
		r.config.ConfigMaps = func(context.Context, string, string) (*corev1.ConfigMap, error) {
			return &corev1.ConfigMap{Data: map[string]string{"a.conf": contents.Load().(string)}}, nil
		}
		r.start()
		pod := webPod("web")
		pod.Spec.Volumes = []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "conf"},
		}}}}
		uid := r.api.create(pod).UID
		r.api.await(t, "web", "running", running)
		file := filepath.Join(r.config.Root, "pods", string(uid), "volumes", "kubernetes.io~configmap", "conf", "a.conf")
		check := func(want string) {
			t.Helper()
			if got, err := os.ReadFile(file); err != nil || string(got) != want {
				t.Errorf("the file has %q (%v), want %q", got, err, want)
			}
		}
		check("old")
		r.stop()
		contents.Store("new")
		r.start()
		time.Sleep(90 * time.Second)
		check("new")
		contents.Store("newer")
		time.Sleep(90 * time.Second)
		check("newer")
	})
}
