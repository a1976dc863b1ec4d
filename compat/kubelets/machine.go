package kubelets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/examples/cluster/containerd"
	"github.com/planekit/planekit/examples/cluster/offline"
)

// machine is what a kubelet finds: a runtime with images, and a cgroup for pods.
type machine struct {
	// dir is for the kubelet's files. It is short, because sockets are made in it.
	dir    string
	socket string
	// cgroup is the parent of the cgroups of pods, which exists in every hierarchy.
	cgroup string
}

// network is read by the runtime to see that there is one. No pod uses it.
const network = `{"cniVersion":"1.0.0","name":"unused","plugins":[{"type":"bridge","ipam":{"type":"host-local","subnet":"10.9.0.0/24"}}]}`

// newMachine starts a containerd that runs until the test ends. Nothing of it is left then.
func newMachine(t *testing.T) *machine {
	t.Helper()
	if err := containerd.Available(); err != nil {
		t.Skipf("no containerd: %v", err)
	}
	dir, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unmount(dir), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	m := &machine{dir: dir, cgroup: "/" + filepath.Base(dir)}
	t.Cleanup(func() { removeCgroups(t, m.cgroup) })
	if err := makeCgroups(m.cgroup); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "net.d")
	if err := os.Mkdir(conf, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(conf, "10-unused.conflist"), []byte(network), 0o644); err != nil {
		t.Fatal(err)
	}
	registry := startRegistry(t)
	daemon, err := containerd.New(containerd.Config{
		Root: filepath.Join(dir, "containerd"), CNIConf: conf, CNIBin: "/usr/lib/cni",
		Mirrors: map[string]string{"docker.io": registry, "registry.k8s.io": registry},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := daemon.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	m.socket = daemon.Socket()
	return m
}

// startRegistry serves the images of the example cluster until the test ends, and returns its URL.
func startRegistry(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	images, err := offline.New(offline.Config{Cache: filepath.Join(cache, "planekit")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- images.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return images.URL()
}

const cgroupMount = "/sys/fs/cgroup"

// hierarchies returns the mounted cgroup hierarchies.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.procs")); err == nil {
		return []string{cgroupMount}, nil
	}
	return filepath.Glob(filepath.Join(cgroupMount, "*"))
}

func makeCgroups(name string) error {
	all, err := hierarchies()
	for _, h := range all {
		err = errors.Join(err, os.MkdirAll(filepath.Join(h, name), 0o755))
	}
	return err
}

// removeCgroups removes a cgroup with all below it, and kills what runs there.
func removeCgroups(t *testing.T, name string) {
	all, err := hierarchies()
	if err != nil {
		t.Error(err)
	}
	for _, h := range all {
		if err := removeCgroup(filepath.Join(h, name)); err != nil {
			t.Error(err)
		}
	}
}

func removeCgroup(root string) error {
	var below []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			below = append(below, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for i := len(below) - 1; i >= 0; i-- {
		err = errors.Join(err, removeEmpty(below[i]))
	}
	return err
}

// removeEmpty removes one cgroup. The kernel refuses until its last process is gone.
func removeEmpty(path string) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := os.Remove(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		killIn(path)
		time.Sleep(20 * time.Millisecond)
	}
}

// killIn kills the processes of one cgroup.
func killIn(path string) {
	text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	if err != nil {
		return // it is gone
	}
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// unmount unmounts what is mounted below dir.
func unmount(dir string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var paths []string
	for line := range strings.Lines(string(text)) {
		// The fifth field is the mount point (proc_pid_mountinfo(5)).
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			paths = append(paths, fields[4])
		}
	}
	for i := len(paths) - 1; i >= 0; i-- {
		err = errors.Join(err, syscall.Unmount(paths[i], syscall.MNT_DETACH))
	}
	return err
}
