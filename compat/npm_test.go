//go:build npm

package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/internal/scenario"
)

// TestNPM runs the clients for JavaScript, which npm downloads.
func TestNPM(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "npm")
	if err := os.CopyFS(dir, os.DirFS("npm")); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	scenario.Run(t, scenario.Config{Dir: "testdata/npm", Programs: programs, Env: []string{"NPM=" + dir}})
}
