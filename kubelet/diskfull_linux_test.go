package kubelet_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/internal/fulldisk"
)

// fullPod has a volume of each type, a part of one, and resources, so that it makes the kubelet write
// all that it can.
func fullPod(name string) *corev1.Pod {
	pod := webPod(name)
	volume := func(name string, source corev1.VolumeSource) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	volume("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	volume("config", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}})
	volume("secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}})
	pod.Spec.Containers[0].VolumeMounts[0].SubPath = "deep/part"
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	return pod
}

// outOfSpace returns the reasons and beginnings of the events about a pod that say that the disk is full.
// Those about a subPath keep that from the user, as in Kubernetes.
func (a *api) outOfSpace(pod string) map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	said := map[string]bool{}
	for _, e := range a.events {
		if e.InvolvedObject.Name == pod && (strings.Contains(e.Message, syscall.ENOSPC.Error()) || strings.Contains(e.Message, "failed to prepare subPath")) {
			words := strings.Fields(e.Message)
			said[e.Reason+": "+strings.Join(words[:min(2, len(words))], " ")] = true
		}
	}
	return said
}

// TestFullDisk fills the disk of a node at every step of the start of a pod. An event says which step
// failed, and the pod starts when there is space again, with everything that it needs.
func TestFullDisk(t *testing.T) {
	said := map[string]bool{}
	for _, files := range []bool{fulldisk.Files, fulldisk.Pages} {
		disk := fulldisk.New(t)
		synctest.Test(t, func(t *testing.T) {
			runtime, err := memruntime.New(memruntime.Config{Socket: "/not/listened/at"})
			if err != nil {
				t.Fatal(err)
			}
			r := rigOn(t, runtime, runtime)
			r.config.Root, r.config.LogRoot = filepath.Join(disk.Path, "root"), filepath.Join(disk.Path, "logs")
			r.start()
			defer r.stop()
			for left := 0; ; left++ {
				name := fmt.Sprintf("web-%d", left)
				disk.Leave(files, left)
				r.api.create(fullPod(name))
				time.Sleep(3 * time.Second)
				r.api.mu.Lock()
				pod, _ := r.api.pods.Get("default/" + name)
				r.api.mu.Unlock()
				runs, events := running(pod), r.api.outOfSpace(name)
				if runs && len(events) == 0 {
					if left < 4 {
						t.Errorf("the pod needs space for %d files or pages only", left)
					}
					disk.Free()
					r.api.delete(name, 0)
					r.api.await(t, name, "gone", gone)
					break
				}
				if len(events) == 0 {
					t.Errorf("%d left, files %v: nothing says so: %+v", left, files, pod.Status)
				}
				maps.Copy(said, events)
				if events["FailedMount: MountVolume.SetUp failed"] {
					left += 2 // a volume has many files; package volumes tests each
				}
				disk.Free()
				pod = r.api.await(t, name, "running", running)
				r.checkFiles(pod)
				if text := restOf(t, disk.Path, pod); text != "" {
					t.Errorf("%d left, files %v: there is also %s", left, files, text)
				}
				r.api.delete(name, 0)
				r.api.await(t, name, "gone", gone)
			}
			eventually(t, "nothing is left", func() bool {
				pods, err := os.ReadDir(filepath.Join(disk.Path, "root/pods"))
				logs, err2 := os.ReadDir(filepath.Join(disk.Path, "logs"))
				return errors.Join(err, err2) == nil && len(pods)+len(logs) == 0
			})
		})
	}
	for _, want := range []string{
		"Failed: error making", "FailedCreatePodSandBox: Failed to", "FailedMount: MountVolume.SetUp failed",
		"Failed: Error: failed", "Failed: Error: hosts", "Failed: Error: error", "Failed: Error: create",
	} {
		if !said[want] {
			t.Errorf("no event says %q", want)
		}
	}
	t.Log(slices.Sorted(maps.Keys(said)))
}

// checkFiles checks the files that a pod has on its node.
func (r *rig) checkFiles(pod *corev1.Pod) {
	r.t.Helper()
	root := filepath.Join(r.config.Root, "pods", string(pod.UID))
	for path, want := range map[string]string{
		"volumes/kubernetes.io~configmap/config/a.conf": "alpha",
		"volumes/kubernetes.io~configmap/config/b.conf": "beta",
		"volumes/kubernetes.io~secret/secret/password":  "open sesame",
		"containers/web/0": "",
	} {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || string(data) != want {
			r.t.Errorf("%s has %q: %v", path, data, err)
		}
	}
	for path, want := range map[string]string{"etc-hosts": pod.Status.PodIP + "\t", "resources.json": `"cpu":"10m"`} {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || !strings.Contains(string(data), want) {
			r.t.Errorf("%s has %q: %v", path, data, err)
		}
	}
}

// restOf returns the temporary files in the directory of a pod.
func restOf(t *testing.T, disk string, pod *corev1.Pod) string {
	t.Helper()
	var rest []string
	err := filepath.WalkDir(filepath.Join(disk, "root/pods", string(pod.UID)), func(path string, d fs.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(path, ".new") || strings.HasSuffix(path, "_tmp") || strings.Contains(d.Name(), "resources.json.")) {
			rest = append(rest, path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return strings.Join(rest, ", ")
}
