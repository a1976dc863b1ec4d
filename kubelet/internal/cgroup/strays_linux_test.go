package cgroup_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
)

// TestStrayProcesses: the cgroup of a pod is removed although processes that no runtime knows of run
// in it and below it. A cgroup that does not exist is no error.
func TestStrayProcesses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("control groups need root")
	}
	// A machine with version 1 can have version 2 too, without the controllers that version 1 has.
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(mount); err != nil {
			continue
		}
		t.Run(filepath.Base(mount), func(t *testing.T) {
			restoreDelegation(t, mount)
			testStrays(t, cgroup.FS{Mount: mount})
		})
	}
}

func testStrays(t *testing.T, g cgroup.FS) {
	top := fmt.Sprintf("/planekit-test-strays-%d", os.Getpid())
	pod := top + "/podx"
	var settings cgroup.Settings
	if g.Has("cpu") {
		settings.Shares = 2
	}
	if err := g.Create(pod+"/container", settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Kill(top), g.Remove(top)); err != nil {
			t.Error(err)
		}
	})
	tops := []string{g.Mount}
	if !g.Unified() {
		var err error
		if tops, err = filepath.Glob(g.Mount + "/*"); err != nil {
			t.Fatal(err)
		}
	}
	var strays []*exec.Cmd
	for range 3 {
		stray := exec.Command("sleep", "600")
		if err := stray.Start(); err != nil {
			t.Fatal(err)
		}
		strays = append(strays, stray)
		joined := 0
		for _, root := range tops {
			path := filepath.Join(root, pod, "container", "cgroup.procs")
			err := os.WriteFile(path, []byte(strconv.Itoa(stray.Process.Pid)), 0o644)
			if err == nil {
				joined++
			} else if !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		if joined == 0 {
			t.Fatal("the process is in no cgroup")
		}
	}
	if err := g.Remove(pod); err == nil {
		t.Fatal("removed with processes in it")
	}
	// They are reaped while they are killed: only then have they left the cgroup.
	ended := make(chan error, len(strays))
	for _, stray := range strays {
		go func() { ended <- stray.Wait() }()
	}
	// On a busy machine that takes longer than Kill waits, and the caller tries again.
	deadline := time.Now().Add(time.Minute)
	for range 2 {
		for err := errors.Join(g.Kill(pod), g.Remove(pod)); err != nil; err = errors.Join(g.Kill(pod), g.Remove(pod)) {
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	for range strays {
		if err, ok := errors.AsType[*exec.ExitError](<-ended); !ok || err.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("a stray process ended with %v", err)
		}
	}
	for _, root := range tops {
		if _, err := os.Stat(filepath.Join(root, pod)); !os.IsNotExist(err) {
			t.Errorf("%s%s is left: %v", root, pod, err)
		}
	}
}
