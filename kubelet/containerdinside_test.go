package kubelet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri"
)

// removeLeftovers removes the sandboxes and cgroups of a test that has failed.
func removeLeftovers(t *testing.T, client *cri.Client, cgroup string) {
	if !t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Log(err)
		return
	}
	for _, s := range list.Items {
		_, stopped := client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.Id})
		_, removed := client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.Id})
		if err := errors.Join(stopped, removed); err != nil {
			t.Log(err)
		}
	}
	roots, _ := filepath.Glob("/sys/fs/cgroup/*" + cgroup)
	for _, root := range append(roots, "/sys/fs/cgroup"+cgroup) {
		var groups []string
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		for _, path := range slices.Backward(groups) {
			os.Remove(path)
		}
	}
}

// change changes a pod as a client of the API would.
func (a *api) change(name string, change func(*corev1.Pod)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, _ := a.pods.Get("default/" + name)
	pod := old.DeepCopy()
	change(pod)
	pod.ResourceVersion = a.touch()
	a.pods.Put(pod)
}

// end deletes pods and waits until nothing of them is left.
func (r *rig) end(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		r.api.delete(name, 0)
	}
	for _, name := range names {
		r.api.await(t, name, "gone", gone)
	}
}

// container is a container that runs, seen from the host.
type container struct {
	id  string
	pid int
}

// inside returns the container of a pod with a name.
func (r *rig) inside(t *testing.T, pod *corev1.Pod, name string) container {
	t.Helper()
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for _, s := range list {
			if s.Name == name {
				_, id, _ := strings.Cut(s.ContainerID, "://")
				return container{id, r.pid(t, id)}
			}
		}
	}
	t.Fatalf("the pod %s has no container %s: %+v", pod.Name, name, pod.Status)
	return container{}
}

// pid returns the first process of a container.
func (r *rig) pid(t *testing.T, id string) int {
	t.Helper()
	pid := r.findPID(t, id)
	if pid == 0 {
		t.Fatalf("the container %s has no process", id)
	}
	return pid
}

// findPID is pid, but returns 0 if the container has no process.
func (r *rig) findPID(t *testing.T, id string) int {
	t.Helper()
	status, err := r.client.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		t.Fatal(err)
	}
	var info struct{ PID int }
	if err := json.Unmarshal([]byte(status.Info["info"]), &info); err != nil {
		t.Fatalf("the container %s: %v", id, err)
	}
	return info.PID
}

// path returns the path on the host of a file that a container sees.
func (c container) path(name string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", c.pid), name)
}

// stat returns the type, the mode and the owners of a file that a container sees.
func (c container) stat(t *testing.T, name string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(c.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// namespace returns a namespace of a container's processes.
func (c container) namespace(t *testing.T, name string) string {
	t.Helper()
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", c.pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// mountOptions returns the options of the mounts that a container has at a path, by mountinfo (proc(5)).
func (c container) mountOptions(t *testing.T, path string) (options []string) {
	t.Helper()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", c.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); fields[4] == path {
			options = append(options, fields[5])
		}
	}
	return options
}

// act runs a command of the actor in a container.
func (r *rig) act(t *testing.T, c container, command, path string) (output string, ok bool) {
	t.Helper()
	answer, err := r.client.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: c.id, Cmd: []string{"/actor", command, path}, Timeout: 60})
	if err != nil {
		t.Fatal(err)
	}
	return string(answer.Stdout), answer.ExitCode == 0
}

// refuses fails unless a command fails in a container with an error.
func (r *rig) refuses(t *testing.T, c container, command, path, want string) {
	t.Helper()
	if got, ok := r.act(t, c, command, path); ok || !strings.HasSuffix(got, want+"\n") {
		t.Errorf("%s %s: %q, want %q", command, path, got, want)
	}
}

// does fails unless a command succeeds in a container. It returns what the command prints.
func (r *rig) does(t *testing.T, c container, command, path string) string {
	t.Helper()
	got, ok := r.act(t, c, command, path)
	if !ok {
		t.Errorf("%s %s in the container fails with %q, want exit code 0", command, path, got)
	}
	return got
}

// waits returns a condition for await: the only container of a pod waits for a reason, with a message
// that has a text in it.
func waits(reason, message string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
			return false
		}
		w := firstStatus(pod).State.Waiting
		return w != nil && w.Reason == reason && strings.Contains(w.Message, message)
	}
}

// mountVolume mounts a volume in all containers of a pod, at /NAME.
func mountVolume(pod *corev1.Pod, name string, source corev1.VolumeSource) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	}
}

func hostPathSource(path string, kind corev1.HostPathType) corev1.VolumeSource {
	return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}
}

// network writes a CNI configuration.
func (c *containerd) network(context.Context, string) error {
	return os.WriteFile(c.dir+"/net.d/10-test.conflist", []byte(`{"cniVersion":"1.0.0","name":"test","plugins":[{"type":"actor"}]}`), 0o600)
}
