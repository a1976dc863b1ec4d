package kubelets

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/examples/cluster/containerd"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/examples/cluster/offline"
)

// host holds the machine of a kubelet: a runtime with images, and a cgroup for pods.
type host struct {
	// dir is for the kubelet's files. It is short, because sockets are made in it.
	dir    string
	socket string
	// cgroup is the parent of the cgroups of pods, which exists in every hierarchy.
	cgroup string
}

// network is read by the runtime to see that there is one. No pod uses it.
const network = `{"cniVersion":"1.0.0","name":"unused","plugins":[{"type":"bridge","ipam":{"type":"host-local","subnet":"10.9.0.0/24"}}]}`

// newHost starts a containerd that runs until the test ends. Nothing of it is left then.
func newHost(t *testing.T) *host {
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
	m := &host{dir: dir, cgroup: "/" + filepath.Base(dir)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := machine.RemoveCgroups(ctx, m.cgroup); err != nil {
			t.Error(err)
		}
	})
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
