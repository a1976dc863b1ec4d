package volumes_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/kubelet/volumes"
	corev1 "k8s.io/api/core/v1"
)

// TestEmptyDirStays: a volume is set up once. What containers have made of it stays, and what an
// interrupted attempt has left does not disturb.
func TestEmptyDirStays(t *testing.T) {
	set, err := volumes.NewSet(volumes.Builtin(volumes.Sources{})...)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
	}}}
	directory := t.TempDir()
	if err := os.MkdirAll(filepath.Join(directory, "volumes/kubernetes.io~empty-dir/disk.new/half"), 0o700); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := set.TearDown(t.Context(), directory); err != nil {
			t.Error(err)
		}
	}()
	for _, want := range []map[string]fs.FileMode{{"disk": 0o777, "memory": 0o777 | fs.ModeSticky}, {"disk": 0o700, "memory": 0o700}} {
		paths, err := set.SetUp(t.Context(), pod, directory)
		if err != nil {
			t.Fatal(err)
		}
		for name, mode := range want {
			info, err := os.Stat(paths[name])
			if err != nil || info.Mode() != fs.ModeDir|mode {
				t.Errorf("%s has the mode %v: %v", name, info.Mode(), err)
			}
			if entries, err := os.ReadDir(paths[name]); err != nil || len(entries) > 0 {
				t.Errorf("%s has %v: %v", name, entries, err)
			}
			if err := os.Chmod(paths[name], 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
}
