//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netns"
)

// onThread runs f on a thread of its own, which ends with it.
func onThread(f func() error) error {
	done := make(chan error, 1) // one answer
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

func makeNamespace() (string, error) {
	name := fmt.Sprintf("pk62b%08x", rand.Uint32())
	return filepath.Join("/run/netns", name), onThread(func() error {
		fd, err := netns.NewNamed(name)
		if err != nil {
			return err
		}
		return fd.Close()
	})
}

// deleteNamespace leaves a namespace that is in use to the kernel.
func deleteNamespace(path string) { _ = netns.DeleteNamed(filepath.Base(path)) }

// inside runs f on a thread in a namespace, and so the processes that f starts.
func inside(path string, f func() error) error {
	return onThread(func() error {
		fd, err := netns.GetFromPath(path)
		if err != nil {
			return err
		}
		defer fd.Close()
		if err := netns.Set(fd); err != nil {
			return err
		}
		return f()
	})
}
