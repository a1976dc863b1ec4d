package kubelet_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/eviction"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// containerdSubPaths mounts a file of a config map and a directory of a volume that the kubelet has to
// create, also after the container was restarted.
func containerdSubPaths(t *testing.T, r *rig) {
	actor := func(name, file string) *corev1.ExecAction {
		return &corev1.ExecAction{Command: []string{"/actor", name, file}}
	}
	pod := actorPod("parts")
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
	}
	web := &pod.Spec.Containers[0]
	web.Env = []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	web.VolumeMounts = []corev1.VolumeMount{
		{Name: "conf", MountPath: "/etc/alone.conf", SubPath: "a.conf", ReadOnly: true},
		{Name: "scratch", MountPath: "/data", SubPathExpr: "of/$(POD)"},
	}
	web.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: actor("exists", "/etc/alone.conf")}, PeriodSeconds: 1, FailureThreshold: 1}
	web.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: actor("make", "/data/made")}}
	created := r.api.create(pod)
	up := r.api.await(t, "parts", "ready", running)
	made := filepath.Join(r.config.Root, "pods", string(created.UID), "volumes/kubernetes.io~empty-dir/scratch/of/parts/made")
	if err := os.Remove(made); err != nil {
		t.Error(err)
	}
	kill(t, r, created, up)
	r.api.await(t, "parts", "restarted", func(pod *corev1.Pod) bool {
		return running(pod) && pod.Status.ContainerStatuses[0].RestartCount == 1
	})
	if _, err := os.Stat(made); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	r.api.delete("parts", 2)
	r.api.await(t, "parts", "gone", gone)
	nothingLeft(t, string(created.UID))
}

// containerdLogs finds the log of a container that has written all the time in several files, without
// a gap.
func containerdLogs(t *testing.T, r *rig) {
	up := r.api.await(t, "chatter", "running", running)
	path := filepath.Join(r.config.LogRoot, "default_chatter_"+string(up.UID), "web", fmt.Sprintf("%d.log", up.Status.ContainerStatuses[0].RestartCount))
	var older []string
	eventually(t, "the log was rotated", func() bool {
		var err error
		if _, err = os.Stat(path); err == nil {
			older, err = filepath.Glob(path + ".*")
		}
		return err == nil && len(older) > 0
	})
	next := 0
	for _, path := range append(older, path) {
		data, err := readLog(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			if !strings.HasSuffix(line, "\n") || fields[len(fields)-1] == "actor" {
				continue
			}
			if n, err := strconv.Atoi(fields[len(fields)-1]); err != nil || n != next {
				t.Fatalf("%s: %q, want %d", path, line, next)
			}
			next++
		}
	}
	t.Logf("%d lines in %d files", next, len(older)+1)
	r.api.delete("chatter", 0)
	r.api.await(t, "chatter", "gone", gone)
}

// readLog reads a file of a log, which may be compressed.
func readLog(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if !strings.HasSuffix(path, ".gz") {
		return io.ReadAll(file)
	}
	in, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

// smallDisk mounts a disk of 64 MiB at root, and returns the configuration with which pods are evicted
// when a quarter of it is left.
func smallDisk(t *testing.T, root string) kubelet.Eviction {
	t.Helper()
	if err := os.MkdirAll(root, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(root, syscall.MNT_DETACH) })
	thresholds, err := eviction.Parse(eviction.Settings{Hard: map[string]string{"nodefs.available": "25%"}})
	if err != nil {
		t.Fatal(err)
	}
	return kubelet.Eviction{Thresholds: thresholds, Interval: 500 * time.Millisecond, Transition: 2 * time.Second}
}

// containerdEviction lets one pod fill the disk and another its log: both are evicted, and nothing else
// is.
func containerdEviction(t *testing.T, r *rig) {
	bystander := actorPod("bystander")
	bystander.Spec.Priority = new(int32(1000))
	hog := actorPod("hog", "fill", "/scratch/large")
	hog.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	hog.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	noisy := actorPod("noisy", "chatter")
	noisy.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("2Mi")}
	r.api.create(bystander)
	r.api.await(t, "bystander", "running", running)
	r.api.create(noisy)
	r.api.await(t, "noisy", "evicted", evicted("Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "))
	r.api.create(hog)
	r.api.await(t, "hog", "evicted", evicted("The node was low on resource: ephemeral-storage. Threshold quantity: 16Mi, available: "))
	for _, name := range []string{"hog", "noisy"} {
		r.api.delete(name, 0)
		r.api.await(t, name, "gone", gone)
	}
	up := r.api.await(t, "bystander", "running", running)
	if n := up.Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("the bystander was restarted %d times", n)
	}
	eventually(t, "the disk is no longer under pressure", func() bool {
		node, err := nodeAPI{r.api}.Get(t.Context(), "", "node-1")
		return err == nil && nodeCondition(node, corev1.NodeDiskPressure) == corev1.ConditionFalse
	})
	r.api.create(actorPod("next"))
	for _, name := range []string{"next", "bystander"} {
		r.api.await(t, name, "running", running)
		r.api.delete(name, 0)
		r.api.await(t, name, "gone", gone)
	}
}
