//go:build linux

package containerd_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/examples/cluster/containerd"
)

// TestResults: a daemon starts without the results of network plugins that an earlier one was killed in
// the middle of writing, and without those of sandboxes that it does not know. Those of other daemons
// stay.
func TestResults(t *testing.T) {
	const dir = "/var/lib/cni/results"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	known := map[string]bool{}
	// put makes a sandbox of the root, unless it is another daemon's, with a result.
	put := func(ours bool, isKnown bool, content string) string {
		t.Helper()
		var random [32]byte
		rand.Read(random[:])
		id := hex.EncodeToString(random[:])
		known[id] = isKnown
		if ours {
			if err := os.MkdirAll(filepath.Join(root, "io.containerd.grpc.v1.cri/sandboxes", id), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, "planekit-test-"+id+"-eth0")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(path) })
		return path
	}
	want := map[string]bool{
		put(true, true, ""):                false,
		put(true, true, `{"kind":"cniCa`):  false,
		put(true, true, `{"kind":"v1"}`):   true,
		put(true, false, `{"kind":"v1"}`):  false,
		put(false, true, ""):               true,
		put(false, false, `{"kind":"v1"}`): true,
	}
	d := daemonWith(t, containerd.Config{
		Root: root, CNIConf: filepath.Join(root, "net.d"), CNIBin: "/usr/lib/cni",
		Known: func(context.Context, string) (map[string]bool, error) {
			ids := map[string]bool{}
			for id, isKnown := range known {
				if isKnown {
					ids[id] = true
				}
			}
			return ids, nil
		},
	})
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, stays := range want {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: %v, should stay: %v", path, err, stays)
		}
	}
}
