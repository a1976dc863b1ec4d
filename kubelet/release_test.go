package kubelet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/volumes"
)

// TestVolumesOfEndedPod: a pod that has ended holds no disk with its volumes, although the API still has
// the pod. Its log stays.
func TestVolumesOfEndedPod(t *testing.T) {
	ends := memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{For: 10 * time.Second, Output: "done\n"}
	}}
	inBubble(t, ends, func(t *testing.T, r *rig) {
		r.start()
		pod := webPod("job")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		created := r.api.create(pod)
		r.api.await(t, "job", "running", running)
		directory := filepath.Join(r.config.Root, "pods", string(created.UID))
		if err := os.WriteFile(filepath.Join(directory, "volumes/kubernetes.io~empty-dir/scratch/data"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.api.await(t, "job", "succeeded", func(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == corev1.PodSucceeded })
		time.Sleep(time.Second)
		synctest.Wait()
		if exists(filepath.Join(directory, "volumes")) {
			t.Error("the volumes are there")
		}
		if log := filepath.Join(r.config.LogRoot, "default_job_"+string(created.UID), "web", "0.log"); !exists(directory) || !exists(log) {
			t.Error("the directory of the pod, or its log, is not there")
		}
		// A kubelet that is restarted does not set them up again.
		r.stop()
		r.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if exists(filepath.Join(directory, "volumes")) {
			t.Error("the volumes are there again")
		}
	})
}

// stubborn is a type of volume that cannot be torn down until it is free.
type stubborn struct {
	greeter
	free atomic.Bool
}

func (s *stubborn) TearDown(ctx context.Context, directory string) error {
	if !s.free.Load() {
		return errors.New("busy")
	}
	return s.greeter.TearDown(ctx, directory)
}

// TestEvictionWaits: no pod is evicted while the one before has not given back its volumes, for half a
// minute.
func TestEvictionWaits(t *testing.T) {
	thresholds, err := eviction.Parse(eviction.Settings{Hard: map[string]string{"memory.available": "100%"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		free bool // the volume is free after 15 seconds
		want time.Duration
	}{"released": {true, 20 * time.Second}, "not released": {false, 31 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
				s := &stubborn{greeter: greeter{list: map[string]bool{}}}
				r.config.Volumes = []volumes.Plugin{s}
				r.config.Eviction = kubelet.Eviction{Thresholds: []eviction.Threshold{}, Interval: time.Second}
				var counted atomic.Int64
				r.config.Meters.Evicted = func(signal string) {
					if signal != "memory.available" {
						t.Errorf("a pod was evicted for %s", signal)
					}
					counted.Add(1)
				}
				r.start()
				for name, priority := range map[string]int32{"low": 0, "high": 1000} {
					pod := webPod(name)
					pod.Spec.Priority = &priority
					if name == "low" {
						pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "example.com/greeter"}}}}
					}
					r.api.create(pod)
					r.api.await(t, name, "running", running)
				}
				r.stop()
				r.config.Eviction.Thresholds = thresholds
				r.start()
				r.api.await(t, "low", "evicted", evicted("The node was low on resource: memory. "))
				begun := time.Now()
				time.Sleep(15 * time.Second)
				if test.free {
					s.free.Store(true)
				}
				r.api.await(t, "high", "evicted", evicted("The node was low on resource: memory. "))
				if took := time.Since(begun); took < 15*time.Second || took > test.want+5*time.Second || !test.free && took < 25*time.Second {
					t.Errorf("the next pod was evicted after %v, want about %v", took, test.want)
				}
				if n := counted.Load(); n != 2 {
					t.Errorf("%d evictions are counted", n)
				}
				s.free.Store(true)
			})
		})
	}
}
