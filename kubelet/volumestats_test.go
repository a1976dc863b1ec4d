package kubelet_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/volumes"
	"github.com/planekit/planekit/kubelet/volumestats"
)

// drawers is a type of persistent volume: a directory of the pod.
type drawers struct{}

func (drawers) Name() string                                       { return "example.com/drawers" }
func (drawers) Supports(*corev1.Volume) bool                       { return false }
func (drawers) SupportsPersistent(v *corev1.PersistentVolume) bool { return v.Spec.CSI != nil }
func (drawers) SetUp(_ context.Context, v *volumes.Volume) (string, error) {
	return v.Directory, os.MkdirAll(v.Directory, 0o755)
}

// TestVolumeStats: the volumes of a pod have statistics while they are set up, also after a restart of the
// kubelet, and claims have those of their file systems.
func TestVolumeStats(t *testing.T) {
	inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
		r.config.Volumes = []volumes.Plugin{drawers{}}
		r.config.Claims = func(_ context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
			return &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "claim"},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "drawer", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
				Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			}, nil
		}
		r.config.PersistentVolumes = func(context.Context, string, string) (*corev1.PersistentVolume, error) {
			return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "drawer"}, Spec: corev1.PersistentVolumeSpec{
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "drawers"}},
				ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "claim"},
			}}, nil
		}
		r.start()
		pod := webPod("web")
		pod.Spec.Volumes = []corev1.Volume{
			{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}}},
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
		}
		if got := r.kubelet.VolumeStats(t.Context(), pod); got != nil {
			t.Errorf("of an unknown pod: %+v", got)
		}
		r.api.create(pod)
		pod = r.api.await(t, "web", "running", running)
		file := filepath.Join(r.config.Root, "pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir", "cache", "file")
		if err := os.WriteFile(file, []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
			t.Fatal(err)
		}
		check := func() {
			t.Helper()
			byName := map[string]volumestats.Stats{}
			for _, s := range r.kubelet.VolumeStats(t.Context(), pod) {
				byName[s.Name] = s
			}
			cache, conf, data := byName["cache"], byName["conf"], byName["data"]
			if len(byName) != 3 || cache.UsedBytes < 1<<20 || cache.UsedBytes > 2<<20 || cache.InodesUsed != 2 || conf.InodesUsed < 4 || conf.UsedBytes > 1<<20 {
				t.Errorf("VolumeStats() = %+v, want 3 volumes, cache of 2 inodes and 1 to 2 MiB, conf of 4 inodes or more and at most 1 MiB",
					byName)
			}
			if data.Claim == nil || *data.Claim != (volumestats.ClaimReference{Namespace: "default", Name: "data"}) || data.CapacityBytes == 0 || cache.Claim != nil {
				t.Errorf("the claims of data and cache are %+v and %+v, want default/data and none; data has capacity %d, want more than 0",
					data.Claim, cache.Claim, data.CapacityBytes)
			}
			if claims := r.kubelet.ClaimStats(t.Context()); len(claims) != 1 || claims[0].Name != "data" {
				t.Errorf("ClaimStats() = %+v, want only data", claims)
			}
		}
		check()
		r.stop()
		r.start()
		time.Sleep(time.Minute)
		check()
		r.api.delete("web", 1)
		r.api.await(t, "web", "gone", gone)
		time.Sleep(10 * time.Second)
		if got := r.kubelet.VolumeStats(t.Context(), pod); got != nil || r.kubelet.ClaimStats(t.Context()) != nil {
			t.Errorf("of a pod that has gone: %+v", got)
		}
	})
}
