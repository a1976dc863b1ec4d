//go:build linux

package containerd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/planekit/planekit/examples/cluster/containerd"
)

// TestOrphanSnapshots: a daemon that was killed before it had recorded the snapshots whose
// directories it had made makes snapshots again, and keeps those that it had recorded.
func TestOrphanSnapshots(t *testing.T) {
	root := t.TempDir()
	d := daemon(t, root)
	snapshots := func(args ...string) (string, error) {
		args = append([]string{"--address", d.Socket(), "--namespace", "k8s.io", "snapshots"}, args...)
		out, err := exec.Command("ctr", args...).CombinedOutput()
		return string(out), err
	}
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := snapshots("prepare", "before"); err != nil {
		t.Fatal(err, out)
	}
	kept := snapshotNames(t, root)
	if len(kept) != 1 {
		t.Fatalf("snapshots: %v", kept)
	}
	if err := syscall.Kill(pidOf(root), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has ended", func() bool { return pidOf(root) == 0 })
	for _, orphan := range []string{"2", "3", "new-123"} {
		if err := os.MkdirAll(filepath.Join(root, snapshotDir, orphan, "fs", "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := snapshotNames(t, root); strings.Join(names, " ") != kept[0] {
		t.Errorf("snapshots: %v, want %v", names, kept)
	}
	if out, err := snapshots("prepare", "after"); err != nil {
		t.Error(err, out)
	}
	if out, err := snapshots("ls"); err != nil || !strings.Contains(out, "before") || !strings.Contains(out, "after") {
		t.Error(err, out)
	}
}

// TestDamagedSnapshots: nothing is removed where the database cannot be read, and the daemon starts
// as it can.
func TestDamagedSnapshots(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, snapshotDir, "7")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, filepath.Dir(snapshotDir), "metadata.db"), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = daemonWith(t, containerd.Config{Root: root, CNIConf: filepath.Join(root, "net.d"), CNIBin: "/usr/lib/cni"}).Start(t.Context())
	if names := snapshotNames(t, root); strings.Join(names, " ") != "7" {
		t.Errorf("snapshots: %v", names)
	}
}

const snapshotDir = "io.containerd.snapshotter.v1.overlayfs/snapshots"

func snapshotNames(t *testing.T, root string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, snapshotDir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
