package noderuntime

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/cni/plugins"
	"github.com/planekit/planekit/plane/nodes"
)

var _ nodes.Runtime = (*Runtime)(nil)

func Example() {
	dir, err := os.MkdirTemp("", "node-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	runtime, err := New(Config{Dir: dir, Name: "planekit", Bridge: "br0", Pods: netip.MustParsePrefix("10.244.0.0/16"), Plugin: "/bin/planekit-cni"})
	if err != nil {
		panic(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "net.d"), 0o700); err != nil { // containerd makes it
		panic(err)
	}
	if err := runtime.Network(context.Background(), "10.244.1.0/24"); err != nil {
		panic(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "net.d", "*"))
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		fmt.Println(filepath.Base(file))
	}
	// Output: 10-planekit.conflist
}

// conf is the network that a runtime has written.
func conf(t *testing.T, r *Runtime) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.confDir, "10-"+r.config.Name+".conflist"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(data)), "")
}

// TestNetwork: pods get addresses of the node's range, and the MTU once that is known.
func TestNetwork(t *testing.T) {
	broken := errors.New("no overlay")
	for _, test := range []struct {
		mtu  int
		err  error
		want string
	}{{1450, nil, `"mtu":1450`}, {0, broken, ""}} {
		r, err := New(Config{
			Dir: t.TempDir(), Name: "test", Bridge: "none0", Pods: netip.MustParsePrefix("10.244.0.0/16"),
			MTU: func(context.Context) (int, error) { return test.mtu, test.err },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(r.confDir, 0o700); err != nil { // containerd makes it
			t.Fatal(err)
		}
		if err := r.Network(t.Context(), "10.244.1.0/24"); !errors.Is(err, test.err) {
			t.Errorf("error %v, want %v", err, test.err)
		}
		if test.err == nil {
			if text := conf(t, r); !strings.Contains(text, test.want) || !strings.Contains(text, `"10.244.1.0/24"`) {
				t.Errorf("%s lacks %s", text, test.want)
			}
		}
	}
	r, err := New(Config{Dir: t.TempDir(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Network(t.Context(), "many"); err == nil || !strings.HasPrefix(err.Error(), "pod network: ") {
		t.Errorf("error %v", err)
	}
}

// TestCleanup: what a containerd that was there has got is removed, and what others have put beside it stays.
func TestCleanup(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("networks need root")
		}
		t.Skip("networks need root")
	}
	r, err := New(Config{Socket: "/none.sock", Dir: t.TempDir(), Name: "test", Bridge: "none0", Pods: netip.MustParsePrefix("10.244.0.0/16"), Plugin: "/bin/own"})
	if err != nil {
		t.Fatal(err)
	}
	r.confDir, r.binDir = t.TempDir(), t.TempDir()
	if err := plugins.Install(r.binDir, "/bin/own"); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(r.binDir, plugins.Names()[0])
	if err := errors.Join(os.Remove(theirs), os.Symlink("/bin/theirs", theirs)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.confDir, "99-theirs.conflist"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Network(t.Context(), "10.244.1.0/24"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is gone already does not matter
		if err := r.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{r.confDir: "99-theirs.conflist", r.binDir: filepath.Base(theirs)} {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 || entries[0].Name() != want {
			t.Errorf("left: %v: %v", entries, err)
		}
	}
}
