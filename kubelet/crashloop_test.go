package kubelet_test

import (
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestFilesOfCrashes: a container that fails again and again leaves the files of its last attempts alone.
func TestFilesOfCrashes(t *testing.T) {
	fails := func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{Exits: true, ExitCode: 3}
	}
	inBubble(t, memruntime.Config{Behave: fails}, func(t *testing.T, r *rig) {
		r.config.MaxRestartBackoff = time.Second
		r.start()
		created := r.api.create(webPod("crashes"))
		for _, n := range []int32{5, 20} {
			r.api.await(t, "crashes", "restarted", func(pod *corev1.Pod) bool {
				return pod != nil && len(pod.Status.ContainerStatuses) > 0 && firstStatus(pod).RestartCount >= n
			})
			for kind, pattern := range map[string]string{
				"termination messages": filepath.Join(r.config.Root, "pods", string(created.UID), "containers", "web", "*"),
				"logs":                 filepath.Join(r.config.LogRoot, "default_crashes_"+string(created.UID), "web", "*"),
			} {
				files, err := filepath.Glob(pattern)
				if err != nil || len(files) == 0 || len(files) > 3 {
					t.Errorf("%s after %d restarts: %q, %v, want at most 3", kind, n, files, err)
				}
			}
		}
	})
}
