package volumes

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWritesAreBounded: a pod that names the same large object many times, in one volume or in many, gets an
// error before the node has written and copied much.
func TestWritesAreBounded(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	set, err := NewSet(Builtin(Sources{
		ConfigMap: func(context.Context, string, string, *bool) (*corev1.ConfigMap, error) {
			return &corev1.ConfigMap{Data: map[string]string{"k": large, "small": ""}}, nil
		},
		Field: func(*corev1.Pod, string) (string, error) { return large[:256<<10], nil },
	})...)
	if err != nil {
		t.Fatal(err)
	}
	reference := corev1.LocalObjectReference{Name: "m"}
	one := func(sources ...corev1.VolumeProjection) []corev1.Volume {
		return []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}}
	}
	var items, smalls []corev1.KeyToPath
	var fields []corev1.DownwardAPIVolumeFile
	var sources []corev1.VolumeProjection
	var volumes []corev1.Volume
	for i := range 20_000 {
		path := fmt.Sprint("p", i)
		items, smalls = append(items, corev1.KeyToPath{Key: "k", Path: path}), append(smalls, corev1.KeyToPath{Key: "small", Path: path})
		fields = append(fields, corev1.DownwardAPIVolumeFile{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}})
		if i < 2000 {
			sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: reference, Items: smalls[i:]}})
		}
		if i < 200 {
			volumes = append(volumes, corev1.Volume{Name: path, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference}}})
		}
	}
	for name, test := range map[string]struct {
		volumes []corev1.Volume
		fits    bool
	}{
		"one key often":     {one(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: reference, Items: items}}), false},
		"small files":       {one(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: reference, Items: smalls}}), false},
		"one field often":   {one(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: fields}}), false},
		"one map in many":   {volumes, false},
		"unused large keys": {one(sources...), true},
		"many of 1 MiB":     {volumes[:60], true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid", Namespace: "ns", Name: "hostile"}}
			pod.Spec.Volumes = test.volumes
			directory := t.TempDir()
			t.Cleanup(func() {
				if err := set.TearDown(context.Background(), directory); err != nil {
					t.Error(err)
				}
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := set.SetUp(t.Context(), pod, directory)
			runtime.ReadMemStats(&after)
			if (err == nil) != test.fits || err != nil && !strings.Contains(err.Error(), "more than 64 MiB") {
				t.Errorf("SetUp() = %.200v, want an error: %v", err, !test.fits)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
				t.Errorf("SetUp() allocated %d MiB, want at most 256", used>>20)
			}
		})
	}
}

// TestMountsAreBounded: a pod takes no more than its share of the mounts that the kernel allows.
func TestMountsAreBounded(t *testing.T) {
	set, err := NewSet(Builtin(Sources{Secret: func(context.Context, string, string, *bool) (*corev1.Secret, error) {
		return &corev1.Secret{}, nil
	}})...)
	if err != nil {
		t.Fatal(err)
	}
	secrets, parts := &corev1.Pod{}, &corev1.Pod{}
	scratch := corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	parts.Spec.Volumes, parts.Spec.InitContainers = []corev1.Volume{scratch}, make([]corev1.Container, 1)
	for i := range maxMounts + 1 {
		name := fmt.Sprint("v", i)
		secrets.Spec.Volumes = append(secrets.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}})
		c := &parts.Spec.InitContainers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "scratch", MountPath: "/" + name, SubPath: name})
	}
	for name, pod := range map[string]*corev1.Pod{"secrets": secrets, "subPaths": parts} {
		directory := t.TempDir()
		t.Cleanup(func() {
			if err := set.TearDown(context.Background(), directory); err != nil {
				t.Error(err)
			}
		})
		const want = "the pod takes 601 mounts for volumes in memory and subPaths, more than 600"
		if _, err := set.SetUp(t.Context(), pod, directory); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: SetUp() = %v, want %q", name, err, want)
		}
		if entries, err := os.ReadDir(directory); err != nil || len(entries) > 0 {
			t.Errorf("%s: SetUp() has made %v, %v; want nothing", name, entries, err)
		}
	}
	parts.Spec.InitContainers[0].VolumeMounts = parts.Spec.InitContainers[0].VolumeMounts[1:]
	if _, err := set.SetUp(t.Context(), parts, t.TempDir()); err != nil {
		t.Errorf("SetUp() of %d subPaths = %v, want nil", maxMounts, err)
	}
}
