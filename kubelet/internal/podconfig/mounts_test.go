package podconfig

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestReadOnlyClaims: containers cannot write to a volume whose claim the pod uses for reading, whatever
// the mount says.
func TestReadOnlyClaims(t *testing.T) {
	claim := func(readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data", ReadOnly: readOnly}}
	}
	pod := &corev1.Pod{}
	pod.UID = "uid"
	pod.Spec.Volumes = []corev1.Volume{{Name: "reads", VolumeSource: claim(true)}, {Name: "writes", VolumeSource: claim(false)}}
	c := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{
		{Name: "reads", MountPath: "/reads"}, {Name: "writes", MountPath: "/writes"}, {Name: "writes", MountPath: "/mount-reads", ReadOnly: true},
	}}
	b := newBuilder(t)
	if err := os.MkdirAll(b.PodDirectory(pod.UID), 0o750); err != nil {
		t.Fatal(err)
	}
	mounts, err := b.mounts(pod, c, 0, nil, Volumes{Paths: map[string]string{"reads": "/disk", "writes": "/disk"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"/reads": true, "/writes": false, "/mount-reads": true}
	for _, m := range mounts {
		if readOnly, ok := want[m.ContainerPath]; ok && readOnly != m.Readonly {
			t.Errorf("%s: read-only is %t", m.ContainerPath, m.Readonly)
		}
		delete(want, m.ContainerPath)
	}
	if len(want) > 0 {
		t.Errorf("not mounted: %v in %v", want, mounts)
	}
}
