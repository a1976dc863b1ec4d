package kubelet_test

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestDeepVolume: a pod that has nested directories deeper than a process can open files is removed, with
// what it has written.
func TestDeepVolume(t *testing.T) {
	const depth, files = 1500, 512
	r := newRig(t, memruntime.Config{})
	r.start()
	pod := webPod("deep")
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	created := r.api.create(pod)
	r.api.await(t, "deep", "running", running)
	fd, err := unix.Open(filepath.Join(r.config.Root, "pods", string(created.UID), "volumes/kubernetes.io~empty-dir/scratch"), unix.O_DIRECTORY, 0)
	for range depth {
		if err == nil {
			err = unix.Mkdirat(fd, "x", 0o755)
		}
		next, failed := unix.Openat(fd, "x", unix.O_DIRECTORY, 0)
		err = errors.Join(err, failed, unix.Close(fd))
		fd = next
	}
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		t.Fatal(err)
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = files
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
	r.api.delete("deep", 0)
	r.api.await(t, "deep", "gone", gone)
}
