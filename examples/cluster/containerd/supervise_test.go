//go:build linux

package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/examples/cluster/containerd"
)

// patience is how long a test waits for what must come.
const patience = 2 * time.Minute

// eventually asks until the answer is yes. Other processes cannot tell when.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not so: %s", what)
		}
	}
}

// pidOf returns the process of the daemon, by its configuration file.
func pidOf(root string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(data), filepath.Join(root, "config.toml")) {
			pid := 0
			for _, digit := range filepath.Base(filepath.Dir(file)) {
				pid = 10*pid + int(digit-'0')
			}
			return pid
		}
	}
	return 0
}

// TestSupervise: a daemon that was killed is started again, also one that an
// earlier process had started, and one that is stopped is not.
func TestSupervise(t *testing.T) {
	root := t.TempDir()
	first := daemon(t, root)
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*containerd.Daemon{"its own": first, "found": daemon(t, root)} {
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.Supervise(ctx)
		}()
		for range 3 {
			before := pidOf(root)
			if err := syscall.Kill(before, syscall.SIGKILL); before == 0 || err != nil {
				t.Fatalf("%s: kill %d: %v", name, before, err)
			}
			eventually(t, name+": it is started again", func() bool {
				if pid := pidOf(root); pid == 0 || pid == before {
					return false
				}
				connection, err := net.Dial("unix", d.Socket())
				if err == nil {
					connection.Close()
				}
				return err == nil
			})
		}
		cancel()
		<-ended
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pid := pidOf(root); pid != 0 {
		t.Errorf("process %d runs after Stop", pid)
	}
}

// TestKilledWhileListing: a daemon that is killed while it is asked what it knows is
// started again at once, and one that cannot answer yet is asked again.
func TestKilledWhileListing(t *testing.T) {
	root := t.TempDir()
	bundle := filepath.Join(root, "io.containerd.runtime.v2.task/k8s.io", strings.Repeat("ab", 32))
	if err := os.MkdirAll(bundle, 0o700); err != nil {
		t.Fatal(err)
	}
	asked, calls := make(chan struct{}), 0
	d := daemonWith(t, containerd.Config{
		Root: root, CNIConf: filepath.Join(root, "net.d"), CNIBin: "/usr/lib/cni",
		Known: func(ctx context.Context, _ string) (map[string]bool, error) {
			switch calls++; calls {
			case 1:
				close(asked)
				<-ctx.Done()
				return nil, ctx.Err()
			case 2:
				return nil, errors.New("server is not initialized yet")
			}
			return nil, nil
		},
	})
	started := make(chan error, 1)
	go func() { started <- d.Start(t.Context()) }()
	<-asked
	if err := syscall.Kill(pidOf(root), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Supervise(ctx)
	}()
	eventually(t, "what the daemon does not know is removed", func() bool {
		_, err := os.Stat(bundle)
		return os.IsNotExist(err)
	})
	cancel()
	<-ended
	if err := d.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestStartRemovesLeftovers: what the daemon does not know is removed when it
// starts, and shims without a process. What it knows is kept, and what others made.
func TestStartRemovesLeftovers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
	root := t.TempDir()
	unknown, known, unused, foreign := strings.Repeat("ab", 32), strings.Repeat("cd", 32), strings.Repeat("ef", 32), strings.Repeat("01", 32)
	d := daemonWith(t, containerd.Config{
		Root: root, CNIConf: filepath.Join(root, "net.d"), CNIBin: "/usr/lib/cni",
		Known: func(context.Context, string) (map[string]bool, error) {
			return map[string]bool{known: true, unused: true}, nil
		},
	})
	left := map[string]*leftShim{
		unknown: leaveShim(t, d, root, "k8s.io", unknown, "read line"),
		known:   leaveShim(t, d, root, "k8s.io", known, "(echo up; cat); true"),
		unused:  leaveShim(t, d, root, "k8s.io", unused, "read line"),
		foreign: leaveShim(t, d, root, "default", foreign, "read line"),
	}
	namespace := leftNamespace(t, filepath.Join(filepath.Dir(d.Socket()), "io.containerd.grpc.v1.cri/netns"))
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(namespace); !os.IsNotExist(err) {
		t.Errorf("the network namespace: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]struct{ shim, task, sandbox bool }{
		unknown: {}, known: {true, true, true}, unused: {sandbox: true}, foreign: {true, true, false},
	} {
		is := left[id]
		// A shim that was killed is a zombie without a command: nothing waits for it.
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", is.Process.Pid)); err != nil || len(text) > 0 != want.shim {
			t.Errorf("the shim of %s is %q, %v, want one: %v", id, text, err, want.shim)
		}
		if strings.Contains(string(mounts), is.task) != want.task {
			t.Errorf("the mount of the shim of %s, want one: %v", id, want.task)
		}
		if strings.Contains(string(mounts), is.sandbox) != want.sandbox {
			t.Errorf("the mount of the sandbox %s, want one: %v", id, want.sandbox)
		}
		if _, err := os.Stat(is.bundle); !want.shim && !os.IsNotExist(err) {
			t.Errorf("the bundle of %s: %v", id, err)
		}
	}
	if err := d.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, is := range left {
		if err := is.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("the shim of %s: %v", id, err)
		}
	}
}

// leftShim is a shell that looks like a shim of a daemon.
type leftShim struct {
	*exec.Cmd
	// task and sandbox are mounts, of the shim and of the sandbox. bundle is a directory.
	task, sandbox, bundle string
}

// leaveShim starts a shell with a script as the shim of a sandbox in a namespace of containerd. If
// the script echoes something, leaveShim waits for it.
func leaveShim(t *testing.T, d *containerd.Daemon, root, namespace, id, script string) *leftShim {
	t.Helper()
	state := filepath.Dir(d.Socket())
	s := &leftShim{
		Cmd: &exec.Cmd{
			Path: "/bin/sh",
			Args: []string{"containerd-shim-test", "-c", script, "-namespace", namespace, "-address", d.Socket(), "-id", id},
		},
		task:    filepath.Join(state, "test/io.containerd.runtime.v2.task", namespace, id, "rootfs"),
		sandbox: filepath.Join(state, "test/sandboxes", id, "shm"),
		bundle:  filepath.Join(root, "io.containerd.runtime.v2.task", namespace, id),
	}
	for _, dir := range []string{s.task, s.sandbox, s.bundle} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if dir == s.bundle {
			continue
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
			t.Fatal(err)
		}
	}
	stdin, err := s.StdinPipe() // never written: it waits
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	stdout, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(script, "echo") {
		if _, err := stdout.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// leftNamespace makes a network namespace that no process is in, mounted at a
// file in dir, and returns the file.
func leftNamespace(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "cni-left")
	if err := os.WriteFile(file, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	script := exec.Command("unshare", "--net", "mount", "--bind", "/proc/self/ns/net", file)
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("run of %s: %v: %s", script, err, out)
	}
	return file
}
