package containerd_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/examples/cluster/containerd"
)

func daemon(t *testing.T, root string) *containerd.Daemon {
	t.Helper()
	return daemonWith(t, containerd.Config{
		Root: root, CNIConf: filepath.Join(root, "net.d"), CNIBin: "/usr/lib/cni",
		Mirrors: map[string]string{"docker.io": "http://127.0.0.1:1"},
	})
}

func daemonWith(t *testing.T, config containerd.Config) *containerd.Daemon {
	t.Helper()
	if err := containerd.Available(); err != nil {
		t.Skip(err)
	}
	d, err := containerd.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestStartAdoptStop(t *testing.T) {
	root := t.TempDir()
	d := daemon(t, root)
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A second process with the same root finds the first one's daemon.
	if err := daemon(t, root).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("unix", d.Socket()); err == nil {
		t.Error("the socket answers after Stop")
	}
	if _, err := os.Stat(filepath.Dir(d.Socket())); !os.IsNotExist(err) {
		t.Errorf("state directory after Stop: %v", err)
	}
	hosts, err := os.ReadFile(filepath.Join(root, "certs.d/docker.io/hosts.toml"))
	if err != nil || !strings.Contains(string(hosts), "http://127.0.0.1:1") {
		t.Errorf("mirror: %q, %v", hosts, err)
	}
}

func TestStartQuotesTheLog(t *testing.T) {
	root := t.TempDir()
	d := daemon(t, root)
	// A directory that is not empty keeps the daemon from listening.
	if err := os.MkdirAll(filepath.Join(d.Socket(), "occupied"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := d.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "containerd.log") {
		t.Errorf("error %v does not lead to the log", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, config := range []containerd.Config{
		{Root: "relative", CNIConf: "/c", CNIBin: "/b"},
		{Root: "/r"},
	} {
		if _, err := containerd.New(config); err == nil {
			t.Errorf("no error for %+v", config)
		}
	}
}
