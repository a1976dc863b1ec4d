package kubelet_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/staticpods"
)

// containerdBusy: a volume that a process of the host uses stays until that ends, and its pod stays with
// it, also when the kubelet is restarted meanwhile.
func containerdBusy(t *testing.T, r *rig) {
	pod := actorPod("busy")
	mountVolume(pod, "mem", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
	created := r.api.create(pod)
	in := r.inside(t, r.api.await(t, "busy", "running", running), "web")
	r.does(t, in, "make", "/mem/file")
	volume := filepath.Join(r.config.Root, "pods", string(created.UID), "volumes/kubernetes.io~empty-dir/mem")
	file, err := os.Open(filepath.Join(volume, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r.api.delete("busy", 0)
	r.api.awaitEvent(t, "busy", "FailedKillPod", fmt.Sprintf("error killing pod: terminate: unmount %[1]s: device or resource busy\nstill mounted: %[1]s", volume))
	r.stop()
	r.start()
	r.api.create(actorPod("after"))
	r.api.await(t, "after", "running", running)
	if _, err := os.Stat(filepath.Join(volume, "file")); err != nil {
		t.Errorf("a volume in use was emptied: %v", err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	r.api.await(t, "busy", "gone", gone)
	nothingLeft(t, string(created.UID))
	if _, err := os.Stat(filepath.Join(r.config.Root, "pods", string(created.UID))); err == nil {
		t.Error("the directory of the pod is left")
	}
	r.end(t, "after")
}

// manifest returns the manifest of a static pod, with a label to tell its versions apart.
func manifest(name, version string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {version: %q}}\n"+
		"spec: {hostNetwork: true, restartPolicy: Always, terminationGracePeriodSeconds: 2, containers: [{name: web, image: %q, imagePullPolicy: IfNotPresent}]}\n", name, version, actorImage)
}

// publish writes a manifest so that no reader sees half of it.
func publish(t *testing.T, directory, name, text string) {
	t.Helper()
	half := filepath.Join(directory, "."+name)
	err := os.WriteFile(half, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(half, filepath.Join(directory, name+".yaml"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// awaitStatic waits until exactly these static pods of a node run, and returns their processes.
func (r *rig) awaitStatic(t *testing.T, node string, want ...string) map[string]int {
	t.Helper()
	processes := map[string]int{}
	eventually(t, fmt.Sprintf("the pods %v run", want), func() bool {
		ids := map[string]string{}
		list, err := r.client.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
			State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list.Containers {
			if name, ok := strings.CutSuffix(c.Labels["io.kubernetes.pod.name"], "-"+node); ok {
				ids[name] = c.Id
			}
		}
		if !slices.Equal(slices.Sorted(maps.Keys(ids)), want) {
			return false
		}
		clear(processes)
		for name, id := range ids {
			status, err := r.client.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
			if err != nil || status.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
				return false // it ended meanwhile
			}
			if processes[name] = r.findPID(t, id); processes[name] == 0 {
				return false
			}
		}
		return true
	})
	return processes
}

// staticNode is a kubelet without an API server.
type staticNode struct {
	*kubelet.Kubelet
	stop func()
}

// startStatic starts a kubelet that shares the runtime of the rig.
func startStatic(t *testing.T, r *rig, root string, source staticpods.Config) staticNode {
	t.Helper()
	source.NodeName, source.Period = "files", 20*time.Millisecond
	source.Complete = func(*corev1.Pod) error { return nil }
	static, err := staticpods.New(source)
	if err != nil {
		t.Fatal(err)
	}
	k, err := kubelet.New(kubelet.Config{
		NodeName: "files", Root: root, LogRoot: root + "/logs", CgroupRoot: filepath.Dir(r.config.CgroupRoot) + "/files",
		StopGrace: 2 * time.Second, Runtime: r.client, Images: r.client, StaticPods: static,
		Eviction: kubelet.Eviction{Thresholds: []eviction.Threshold{}}, ImageGC: kubelet.ImageGC{High: 100},
	})
	if err != nil {
		t.Fatal(err)
	}
	stopSource, stopKubelet := inBackground(t, static.Run), inBackground(t, k.Run)
	return staticNode{k, sync.OnceFunc(func() { stopKubelet(); stopSource() })}
}

// containerdStatic runs the static pods of a directory, a page and a file.
func containerdStatic(t *testing.T, r *rig) {
	manifests, root := t.TempDir(), filepath.Join(r.config.Root, "files")
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, manifest("remote", "1")) }))
	defer page.Close()
	both := staticpods.Config{Path: manifests, URL: page.URL, Client: page.Client()}
	publish(t, manifests, "bad", "apiVersion: v1\nkind: Pod\nspec: [")
	publish(t, manifests, "web", manifest("web", "1"))
	node := startStatic(t, r, root, both)
	first := r.awaitStatic(t, "files", "remote", "web")
	publish(t, manifests, "web", manifest("web", "2"))
	var second map[string]int
	eventually(t, "the changed pod was replaced", func() bool {
		second = r.awaitStatic(t, "files", "remote", "web")
		return second["web"] != first["web"]
	})
	node.stop()
	node = startStatic(t, r, root, both)
	publish(t, manifests, "late", manifest("late", "1"))
	publish(t, manifests, "bad", manifest("mended", "1"))
	third := r.awaitStatic(t, "files", "late", "mended", "remote", "web")
	if second["remote"] != first["remote"] || third["remote"] != first["remote"] || third["web"] != second["web"] {
		t.Errorf("the processes %v became %v, and after a restart %v", first, second, third)
	}
	node.stop()
	node = startStatic(t, r, root, staticpods.Config{Path: filepath.Join(manifests, "web.yaml")})
	if last := r.awaitStatic(t, "files", "web"); last["web"] != third["web"] {
		t.Errorf("the process %d became %d when its manifest alone was read", third["web"], last["web"])
	}
	node.stop()
	// The runtime may be stopping sandboxes that the kubelet was stopping, and refuses to do it twice.
	eventually(t, "the pods were stopped", func() bool { return node.StopPods(t.Context()) == nil })
	r.awaitStatic(t, "files")
	nothingLeft(t, root)
}

// containerdStandalone runs the example of a kubelet alone, kills it, and ends it.
func containerdStandalone(t *testing.T, r *rig) {
	root, manifests := filepath.Join(r.config.Root, "standalone"), t.TempDir()
	program := filepath.Join(t.TempDir(), "standalone-kubelet")
	// Built as programs are, from packages that are compiled already.
	build := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", program, "../examples/standalone-kubelet")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	start := func() (*exec.Cmd, *strings.Builder) {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		var said strings.Builder
		node := exec.CommandContext(ctx, program, "--root", root, "--manifests", manifests, "--runtime-endpoint", filepath.Join(filepath.Dir(r.config.Root), "c.sock"), "--file-check-frequency", "20ms")
		node.Stdout, node.Stderr = &said, &said
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
		return node, &said
	}
	publish(t, manifests, "web", manifest("web", "1"))
	node, _ := start()
	before := r.awaitStatic(t, "standalone", "web")
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	node.Wait()
	node, said := start()
	publish(t, manifests, "db", manifest("db", "1"))
	after := r.awaitStatic(t, "standalone", "db", "web")
	if before["web"] != after["web"] {
		t.Errorf("the process %d became %d when the kubelet was killed", before["web"], after["web"])
	}
	if err := node.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := node.Wait(); err != nil {
		t.Errorf("the kubelet ends with %v after SIGTERM, want exit code 0; it says %s", err, said)
	}
	r.awaitStatic(t, "standalone")
	nothingLeft(t, root+"/")
}
