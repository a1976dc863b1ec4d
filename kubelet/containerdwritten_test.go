package kubelet_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerdGroup: volumes that the kubelet makes are those of the pod's group, and stay as a
// container leaves them. Paths of the host are not changed.
func containerdGroup(t *testing.T, r *rig) {
	const group = 4243
	host := t.TempDir()
	if err := os.Chmod(host, 0o755); err != nil {
		t.Fatal(err)
	}
	pod := actorPod("group")
	mountVolume(pod, "disk", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	mountVolume(pod, "mem", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
	mountVolume(pod, "host", hostPathSource(host, ""))
	mountVolume(pod, "conf", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{DefaultMode: new(int32(0o400))}})
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1000)), FSGroup: new(int64(group))}
	r.api.create(pod)
	in := r.inside(t, r.api.await(t, "group", "running", running), "web")
	wantOwner(t, in.path("/disk"), group, fs.ModeDir|fs.ModeSetgid|0o777)
	wantOwner(t, in.path("/mem"), group, fs.ModeDir|fs.ModeSetgid|fs.ModeSticky|0o777)
	wantOwner(t, in.path("/host"), 0, fs.ModeDir|0o755)
	for _, volume := range []string{"/disk", "/mem"} {
		r.does(t, in, "make", volume+"/made")
		wantOwner(t, in.path(volume+"/made"), group, 0o600)
	}
	r.refuses(t, in, "make", "/host/made", "permission denied")
	if got := r.does(t, in, "read", "/conf/a.conf"); got != "alpha" {
		t.Errorf("the configuration is %q", got)
	}
	wantOwner(t, in.path("/conf/..data/a.conf"), group, 0o440)
	r.end(t, "group")
}

// containerdProjected reads files of several sources, each with its mode.
func containerdProjected(t *testing.T, r *rig) {
	pod := actorPod("projected")
	mountVolume(pod, "all", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(0o440)),
		Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{Items: []corev1.KeyToPath{{Key: "a.conf", Path: "conf/own", Mode: new(int32(0o400))}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
				{Path: "run", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}, Mode: new(int32(0o755))},
			}}},
		},
	}})
	r.api.create(pod)
	in := r.inside(t, r.api.await(t, "projected", "running", running), "web")
	for path, want := range map[string]struct {
		text string
		mode fs.FileMode
	}{"conf/own": {"alpha", 0o400}, "name": {"projected", 0o440}, "run": {"projected", 0o755}} {
		if got := r.does(t, in, "read", "/all/"+path); got != want.text {
			t.Errorf("%s is %q", path, got)
		}
		wantOwner(t, in.path("/all/..data/"+path), 0, want.mode)
	}
	r.refuses(t, in, "make", "/all/made", "read-only file system")
	r.end(t, "projected")
}

// imageMounts reports whether a containerd mounts images: it does from 2.1 on.
func (r *rig) imageMounts(t *testing.T) bool {
	t.Helper()
	v, err := r.client.Version(t.Context(), &runtimeapi.VersionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimPrefix(v.RuntimeVersion, "v"), "%d.%d", &major, &minor); err != nil {
		t.Fatalf("version %q: %v", v.RuntimeVersion, err)
	}
	t.Logf("containerd %s", v.RuntimeVersion)
	return major > 2 || major == 2 && minor >= 1
}

// containerdImageVolume mounts an image. A containerd that cannot do that says so in the status.
func containerdImageVolume(t *testing.T, r *rig) {
	for name, part := range map[string]string{"image": "", "image-part": "data"} {
		pod := actorPod(name)
		mountVolume(pod, "tools", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: actorImage, PullPolicy: corev1.PullIfNotPresent}})
		pod.Spec.Containers[0].VolumeMounts[0].SubPath = part
		r.api.create(pod)
		if !r.imageMounts(t) {
			r.api.await(t, name, "refused", waits("CreateContainerError", `failed to mkdir "": mkdir : no such file or directory`))
			r.api.await(t, name, "pending", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodPending })
			r.end(t, name)
			continue
		}
		in := r.inside(t, r.api.await(t, name, "running", running), "web")
		if part == "" {
			r.does(t, in, "exists", "/tools/actor")
			r.does(t, in, "exists", "/tools/data/words")
		} else {
			r.does(t, in, "lacks", "/tools/actor")
			r.does(t, in, "exists", "/tools/words")
		}
		r.refuses(t, in, "make", "/tools/made", "read-only file system")
		r.end(t, name)
	}
}

// containerdSubPathRace starts containers that mount a part of a volume, while that part changes all
// the time between a directory and a link to a directory of the host. No container sees the latter.
func containerdSubPathRace(t *testing.T, r *rig) {
	volume, outside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	part, link := filepath.Join(volume, "part"), filepath.Join(volume, "link")
	if err := os.Mkdir(part, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		defer close(stopped)
		for swaps := 0; ; swaps++ {
			select {
			case <-stop:
				if swaps%2 == 0 {
					return
				}
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, part, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
			// So that the kernel resolves a path between two changes now and then.
			time.Sleep(20 * time.Microsecond)
		}
	}()
	pod := actorPod("race", "lacks", "/v/secret")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	for i := range 8 {
		c := *pod.Spec.Containers[0].DeepCopy()
		c.Name = fmt.Sprintf("again-%d", i)
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	mountVolume(pod, "v", hostPathSource(volume, ""))
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].VolumeMounts[0].SubPathExpr = "part"
	}
	r.api.create(pod)
	refused := map[string]bool{}
	r.api.await(t, "race", "decided", func(pod *corev1.Pod) bool {
		decided := 0
		for _, c := range pod.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Message == fmt.Sprintf("failed to prepare subPath for volumeMount %q of container %q", "v", c.Name) {
				refused[c.Name] = true
			}
			e := c.State.Terminated
			if e != nil && e.ExitCode != 0 {
				t.Fatalf("the container %s saw the host: %+v", c.Name, e)
			}
			if e != nil || refused[c.Name] {
				decided++
			}
		}
		return decided == len(pod.Spec.Containers)
	})
	close(stop)
	<-stopped
	t.Logf("%d containers of %d were refused the link", len(refused), len(pod.Spec.Containers))
	r.end(t, "race")
	if _, err := os.Stat(filepath.Join(outside, "secret")); err != nil {
		t.Error(err)
	}
}
