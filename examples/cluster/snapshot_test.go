package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cli runs the command line and returns what it writes.
func cli(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := command(how{})
	c.SetArgs(arguments)
	c.SetOut(&out)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func mustCLI(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := cli(t, arguments...)
	if err != nil {
		t.Fatalf("cluster %v: %v", arguments, err)
	}
	return out
}

func keep(t *testing.T, api *client.Client, name string) *corev1.ConfigMap {
	t.Helper()
	made, err := typed.ConfigMaps(api).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestSnapshotCommand saves a cluster that runs, and one that is stopped, and restores
// what was saved: the objects are there, later ones are not, and resource versions go on.
func TestSnapshotCommand(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	hot, cold := filepath.Join(files, "hot.db"), filepath.Join(files, "cold.db")
	cluster := start(t, dir, "--nodes", "0")
	api := cluster.client(t)
	keep(t, api, "before")
	if out := mustCLI(t, "snapshot", "save", hot, "--data-dir", dir); out != "Snapshot saved at "+hot+"\n" {
		t.Errorf("save says %q", out)
	}
	info, err := os.Stat(filepath.Join(dir, "snapshot.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, error %v", info, err)
	}
	after := keep(t, api, "after")
	cluster.stop()
	mustCLI(t, "snapshot", "save", cold, "--data-dir", dir)
	if left, err := os.ReadDir(files); err != nil || len(left) != 2 {
		t.Errorf("beside the snapshots: %v, error %v", left, err)
	}

	var status embedded.SnapshotStatus
	if err := json.Unmarshal([]byte(mustCLI(t, "snapshot", "status", hot, "-w", "json")), &status); err != nil || status.Revision == 0 || status.TotalKeys == 0 {
		t.Errorf("status %+v, error %v", status, err)
	}
	if out := mustCLI(t, "snapshot", "status", hot); len(strings.Split(out, ", ")) != 5 {
		t.Errorf("status says %q", out)
	}
	if out := mustCLI(t, "snapshot", "status", hot, "-w", "table"); !strings.Contains(out, "TOTAL KEYS") {
		t.Errorf("status says %q", out)
	}

	for file, later := range map[string]bool{hot: false, cold: true} {
		fresh := t.TempDir()
		mustCLI(t, "snapshot", "restore", file, "--data-dir", fresh)
		if _, err := cli(t, "snapshot", "restore", file, "--data-dir", fresh); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("restored over another: %v", err)
		}
		restored := start(t, fresh, "--nodes", "0")
		api := restored.client(t)
		if _, err := typed.ConfigMaps(api).Get(t.Context(), "default", "before"); err != nil {
			t.Error(err)
		}
		_, err := typed.ConfigMaps(api).Get(t.Context(), "default", "after")
		if later != (err == nil) || err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%s: what was made after the first snapshot: %v", file, err)
		}
		if made := keep(t, api, "new"); len(made.ResourceVersion) < len("1000000000") {
			t.Errorf("resource version %s, in the lost cluster %s", made.ResourceVersion, after.ResourceVersion)
		}
		restored.stop()
	}
}

func TestSnapshotOfExternalEtcd(t *testing.T) {
	etcd, flags := externalEtcd(t)
	defer etcd.Close()
	file := filepath.Join(t.TempDir(), "snapshot.db")
	mustCLI(t, append([]string{"snapshot", "save", file}, flags...)...)
	mustCLI(t, "snapshot", "status", file)
}
