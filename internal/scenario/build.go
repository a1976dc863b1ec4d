package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programs are the programs of the root module in the PATH of a script.
var programs = []string{"./examples/cluster", "./examples/planectl", "./cni/planekit-cni"}

// Build compiles the cluster's programs into dir, for use as [Config].Programs. If the test has the
// race detector, so do they.
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

// Main is a TestMain that builds the programs once for all tests. It stores their directory in
// programs.
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

// moduleRoot returns the directory of the root go.mod, from the root module or from one nested in
// it.
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
