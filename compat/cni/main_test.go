//go:build linux

package cni

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/planekit/planekit/cni/plugins"
	"github.com/vishvananda/netns"
)

// ours and theirs are the directories of the plugins.
var ours, theirs string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "planekit-compat-cni")
	if err == nil {
		err = build(dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// build builds planekit's plugins, and the reference plugins of the version in go.mod.
func build(dir string) error {
	ours, theirs = filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	for _, d := range []string{ours, theirs} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	const reference = "github.com/containernetworking/plugins/plugins/"
	program := filepath.Join(dir, "planekit-cni")
	for _, args := range [][]string{
		{program, "github.com/planekit/planekit/cni/planekit-cni"},
		{theirs + "/", reference + "main/bridge", reference + "main/loopback", reference + "ipam/host-local", reference + "meta/portmap"},
	} {
		if out, err := exec.Command("go", append([]string{"build", "-o"}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("go build %v: %w\n%s", args, err, out)
		}
	}
	return plugins.Install(ours, program)
}

// timeout bounds what must happen at some time, on the slowest machine.
const timeout = 2 * time.Minute

// onHost runs f on a thread in a fresh network namespace that plays the host. The processes that f
// starts are in it too.
func onHost(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("network namespaces need root")
		}
		t.Skip("network namespaces need root")
	}
	inside(t, namespace(t), f)
}

// inside runs f on a thread in a namespace.
func inside(t *testing.T, path string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with f
		fd, err := netns.GetFromPath(path)
		if err == nil {
			err = netns.Set(fd)
			fd.Close()
		}
		if err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// namespace makes a network namespace and returns its path.
func namespace(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("pk62c%08x", rand.Uint32())
	done := make(chan error, 1) // one answer
	go func() {
		runtime.LockOSThread() // the thread is in the new namespace and ends here
		fd, err := netns.NewNamed(name)
		if err == nil {
			err = fd.Close()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.DeleteNamed(name) })
	return filepath.Join("/run/netns", name)
}

// reaches checks that one namespace can connect to an address of another.
func reaches(t *testing.T, from, to, address string) {
	t.Helper()
	var l net.Listener
	inside(t, to, func() {
		var err error
		if l, err = net.Listen("tcp", address); err != nil {
			t.Error(err)
		}
	})
	if l == nil {
		return
	}
	defer l.Close()
	inside(t, from, func() {
		c, err := net.DialTimeout("tcp", address, timeout)
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	})
}

// run runs a command and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("run(%s %v): %v\n%s", name, args, err, out)
	}
	return string(out)
}
