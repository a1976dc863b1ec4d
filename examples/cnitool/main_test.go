//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/vishvananda/netns"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"cnitool": main})
}

// TestScripts runs the scripts in testdata. Each has three network namespaces: $HOST plays the host, and
// $A and $B are attached.
func TestScripts(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("network namespaces need root")
		}
		t.Skip("network namespaces need root")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"HOST", "A", "B"} {
				path, err := namespace(e)
				if err != nil {
					return err
				}
				e.Setenv(name, path)
			}
			return nil
		},
	})
}

// namespace makes a network namespace for the time of a script.
func namespace(e *testscript.Env) (string, error) {
	name := fmt.Sprintf("pk62t%08x", rand.Uint32())
	done := make(chan error, 1) // one answer
	go func() {
		runtime.LockOSThread() // the thread is in the new namespace and ends here
		fd, err := netns.NewNamed(name)
		if err == nil {
			err = fd.Close()
		}
		done <- err
	}()
	e.Defer(func() { _ = netns.DeleteNamed(name) })
	return "/run/netns/" + name, <-done
}

// TestSmall checks that main.go is shorter than 200 lines.
func TestSmall(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(source), "\n"); lines >= 200 {
		t.Errorf("main.go has %d lines, want less than 200", lines)
	}
}
