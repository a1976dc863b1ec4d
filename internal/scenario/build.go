package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programs are what a script finds in its PATH, from the root module.
var programs = []string{"./examples/cluster", "./examples/planectl", "./cni/planekit-cni"}

// Build compiles the cluster's programs into dir, which becomes what
// [Config].Programs wants. They have the race detector in them where the test
// has it.
func Build(dir string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	arguments := []string{"build", "-o", dir + string(filepath.Separator)}
	if raceEnabled {
		arguments = append(arguments, "-race")
	}
	cmd := exec.Command("go", append(arguments, programs...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the cluster's programs: %w\n%s", err, out)
	}
	return nil
}

// Main is a TestMain which builds the programs once for all tests, into the
// directory that it passes to each of them through programs.
func Main(m *testing.M, programs *string) {
	dir, err := os.MkdirTemp("", "planekit-programs-")
	if err == nil {
		err = Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	*programs = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// moduleRoot is the directory of the root go.mod, seen from the root module or
// from one nested in it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "internal", "scenario", "build.go")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("the working directory is outside the repository")
}
