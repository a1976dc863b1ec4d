//go:build linux

package containerd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRemoveUnknownBundles: a daemon that is killed between making the bundle of a container and its
// process leaves a bundle that the next one keeps for good.
func TestRemoveUnknownBundles(t *testing.T) {
	root := t.TempDir()
	unknown, runs, never, sandbox := strings.Repeat("ab", 32), strings.Repeat("cd", 32), strings.Repeat("ef", 32), strings.Repeat("01", 32)
	d, err := New(Config{
		Root: root, CNIConf: root, CNIBin: root,
		Known: func(context.Context, string) (map[string]bool, error) {
			return map[string]bool{runs: true, never: true, sandbox: true}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// The process of the sandbox is about to be made: its shim has one below it.
	l := leftovers{shims: []shim{{pid: os.Getppid(), id: sandbox, namespace: criNamespace}}}
	for id, files := range map[string][]string{
		unknown: {"config.json", "init.pid"}, runs: {"config.json", "init.pid"}, never: {"config.json"}, sandbox: {"config.json"},
	} {
		bundle := filepath.Join(root, taskDirectory, criNamespace, id)
		if err := os.MkdirAll(bundle, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if err := os.WriteFile(filepath.Join(bundle, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l.bundles = append(l.bundles, bundle)
	}
	if err := d.removeUnknown(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{unknown: false, runs: true, never: false, sandbox: true} {
		if _, err := os.Stat(filepath.Join(root, taskDirectory, criNamespace, id)); (err == nil) != want {
			t.Errorf("the bundle of %s: %v, want one: %v", id, err, want)
		}
	}
}

// TestRemoveHalfRemoved: a daemon that is killed while it removes a bundle leaves it under a name that no later
// daemon looks at.
func TestRemoveHalfRemoved(t *testing.T) {
	root := t.TempDir()
	d, err := New(Config{Root: root, CNIConf: root, CNIBin: root})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{d.config.state(), root} {
		tasks := filepath.Join(dir, taskDirectory)
		half, whole, foreign := filepath.Join(tasks, criNamespace, "."+strings.Repeat("ab", 32)), filepath.Join(tasks, criNamespace, strings.Repeat("cd", 32)),
			filepath.Join(tasks, "other", "."+strings.Repeat("ab", 32))
		for _, bundle := range []string{half, whole, foreign} {
			if err := os.MkdirAll(filepath.Join(bundle, "rootfs"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { _ = os.RemoveAll(d.config.state()) })
		if err := d.removeHalfRemoved(); err != nil {
			t.Fatal(err)
		}
		for bundle, want := range map[string]bool{half: false, whole: true, foreign: true} {
			if _, err := os.Stat(bundle); (err == nil) != want {
				t.Errorf("%s: %v, want it: %v", bundle, err, want)
			}
		}
	}
}
