package kubelet_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/eviction"
)

// smallRoot is the size of the disk of TestContainerdFullDisk.
const smallRoot = 128 << 20

// floodRegistry serves an image whose layer, or in the repository manifest whose manifest, has no end,
// and one whose layer becomes larger than the disk when it is unpacked.
type floodRegistry struct{ bomb *servedImage }

func newFloodRegistry() (*floodRegistry, error) {
	layer, err := layerOf(map[string][]byte{"zeros": make([]byte, 2*smallRoot)})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture = "linux", runtime.GOARCH
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	bomb, err := served(image, layer)
	return &floodRegistry{bomb}, err
}

func (f *floodRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // v2 NAME manifests|blobs REFERENCE
	endless := false
	switch {
	case len(parts) != 4:
		return
	case parts[2] == "manifests":
		w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
		w.Header().Set("Docker-Content-Digest", f.bomb.digest)
		if parts[1] != "manifest" {
			write(w, f.bomb.manifest)
			return
		}
		// Without a length containerd reads all of a manifest to know its digest, and keeps nothing.
		if endless = r.Method == http.MethodGet; !endless {
			w.Header().Set("Content-Length", "1000")
		}
	case strings.HasSuffix(parts[3], f.bomb.configHex):
		write(w, f.bomb.config)
	case parts[1] == "bomb":
		write(w, f.bomb.layer)
	default:
		endless = true
	}
	// At this rate the disk would be full after 10 s.
	for piece := make([]byte, smallRoot/100); endless; {
		if _, err := w.Write(piece); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestContainerdFullDisk has all of a node on one small disk. Images that would fill it are given up, and
// when another program has filled it, or has taken all its files, the node is ready, its pods run, and
// those that could not start do so when there is room.
func TestContainerdFullDisk(t *testing.T) {
	disk := ""
	c := startContainerd(t, func(dir string) {
		disk = dir + "/root"
		mountSmall(t, disk)
	})
	client, err := cri.Dial(t.Context(), c.socket, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	c.load(t)
	a := newAPI()
	cgroup := fmt.Sprintf("/planekit-test-%d", os.Getpid())
	t.Cleanup(func() { removeLeftovers(t, client, cgroup) })
	r := &rig{t: t, api: a, client: client, config: kubelet.Config{
		NodeName: "node-1", Root: disk + "/kubelet", LogRoot: disk + "/logs", CgroupRoot: cgroup + "/kubepods",
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
		PodCIDR:   "10.9.0.0/24", StopGrace: 2 * time.Second, LogMaxSize: 1 << 20, LogInterval: time.Second,
		Runtime: client, Images: client, ImageGC: kubelet.ImageGC{High: 100},
		Eviction: kubelet.Eviction{Thresholds: []eviction.Threshold{}},
		Pods:     a.pods, PodStatus: podAPI{a}, Nodes: nodeAPI{a}, Leases: leaseAPI{a}, Events: eventAPI{a},
		Network: c.network,
	}}
	r.start()
	r.api.create(actorPod("chatter", "chatter"))
	up := r.api.await(t, "chatter", "running", running)
	t.Run("floods", func(t *testing.T) { containerdFloods(t, r, disk) })
	t.Run("bytes", func(t *testing.T) { containerdNoRoom(t, r, disk, fillBytes) })
	t.Run("files", func(t *testing.T) { containerdNoRoom(t, r, disk, fillFiles) })
	eventually(t, "the log grows again", logGrows(t, r, up))
	after := r.api.await(t, "chatter", "running", running)
	if n := after.Status.ContainerStatuses[0].RestartCount; n != 0 || containerID(after) != containerID(up) {
		t.Errorf("the pod from before was restarted %d times", n)
	}
	r.end(t, "chatter")
	r.stop()
	if err := r.kubelet.StopPods(t.Context()); err != nil {
		t.Error(err)
	}
}

// mountSmall mounts a disk with few bytes and files.
func mountSmall(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=4000", smallRoot)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// room returns what is left of a disk, in bytes.
func room(t *testing.T, disk string) int64 {
	t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(disk, &fs); err != nil {
		t.Fatal(err)
	}
	return int64(fs.Bavail) * fs.Bsize
}

func containerdFloods(t *testing.T, r *rig, disk string) {
	registry, err := newFloodRegistry()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry)
	defer server.Close()
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, smallRoot/2), 0o600); err != nil {
		t.Fatal(err)
	}
	before := room(t, disk)
	for name, words := range map[string]string{
		"endless":  "the pull was ended because it leaves ",
		"manifest": "the pull was ended because it leaves ",
		"bomb":     "", // faster than it is measured on such a disk
	} {
		pod := actorPod(name)
		pod.Spec.Containers[0].Image = strings.TrimPrefix(server.URL, "http://") + "/" + name + ":1"
		r.api.create(pod)
		pod = r.api.await(t, name, "refused", func(pod *corev1.Pod) bool {
			if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
				return false
			}
			waiting := firstStatus(pod).State.Waiting
			return waiting != nil && (waiting.Reason == "ErrImagePull" || waiting.Reason == "ImagePullBackOff")
		})
		if message := firstStatus(pod).State.Waiting.Message; !strings.Contains(message, words) {
			t.Errorf("%s: the message is %q, want %q in it", name, message, words)
		}
		r.end(t, name)
		eventually(t, "the room is back", func() bool { return room(t, disk) > before-smallRoot/8 })
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
}

// containerdNoRoom creates a pod on a full disk, which starts when there is room again.
func containerdNoRoom(t *testing.T, r *rig, disk string, fill func(t *testing.T, path string)) {
	filler := filepath.Join(disk, "filler")
	if err := os.Mkdir(filler, 0o700); err != nil {
		t.Fatal(err)
	}
	fill(t, filler)
	r.api.create(actorPod("late"))
	eventually(t, "an event says that there is no space", func() bool { return len(r.api.outOfSpace("late")) > 0 })
	if node, err := (nodeAPI{r.api}).Get(t.Context(), "", "node-1"); err != nil || nodeReady(node).Status != corev1.ConditionTrue {
		t.Errorf("the node is not ready: %+v, %v", nodeReady(node), err)
	}
	if err := os.RemoveAll(filler); err != nil {
		t.Fatal(err)
	}
	r.api.await(t, "late", "running", running)
	r.end(t, "late")
}

func fillBytes(t *testing.T, path string) {
	file, err := os.Create(filepath.Join(path, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size > 0 && err == nil; {
		if _, err = file.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size, err = size/2, nil
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func fillFiles(t *testing.T, path string) {
	var err error
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(path, fmt.Sprint(i)), nil, 0o600)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// logGrows returns a condition: lines are added to the log of a pod's container.
func logGrows(t *testing.T, r *rig, pod *corev1.Pod) func() bool {
	path := filepath.Join(r.config.LogRoot, "default_"+pod.Name+"_"+string(pod.UID), "web", "0.log")
	var first []byte
	return func() bool {
		text, err := os.ReadFile(path)
		if first == nil {
			first = text
		}
		return err == nil && !bytes.Equal(text, first)
	}
}
