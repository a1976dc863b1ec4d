package cgroup_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
)

// TestWorkingSet reads the files of both versions.
func TestWorkingSet(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"version 1": {"memory/top/memory.usage_in_bytes": "5000\n", "memory/top/memory.stat": "inactive_file 7\ntotal_inactive_file 2000\n"},
		"version 2": {"cgroup.controllers": "memory\n", "top/memory.current": "5000\n", "top/memory.stat": "anon 9\ninactive_file 2000\n"},
	} {
		root := t.TempDir()
		for path, text := range files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		g := cgroup.FS{Mount: root}
		if n, err := g.WorkingSet("/top"); n != 3000 || err != nil {
			t.Errorf("%s: WorkingSet(/top) = %d, %v, want 3000, nil", name, n, err)
		}
		if n, err := g.WorkingSet("/none"); err == nil {
			t.Errorf("%s: WorkingSet(/none) = %d, nil, want an error", name, n)
		}
	}
}
