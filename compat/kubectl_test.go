package compat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/planekit/planekit/internal/scenario"
)

// kubectlVersion is the version that the released kubectl reports; otherwise it refuses to compare
// versions.
const kubectlVersion = "-X k8s.io/component-base/version.gitVersion=v1.36.3 " +
	"-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"

var builtKubectl = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-ldflags", kubectlVersion, "-o", filepath.Join(programs, "kubectl"), "./cmd/kubectl")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build kubectl: %w\n%s", err, out)
	}
	return nil
})

// kubectl builds the stock kubectl once, and returns its directory.
func kubectl(t *testing.T) string {
	t.Helper()
	if err := builtKubectl(); err != nil {
		t.Fatal(err)
	}
	return programs
}

func TestKubectlFake(t *testing.T) {
	showsScripts(t, "kubectl", "testdata/kubectl")
	scenario.Run(t, scenario.Config{
		Dir: "testdata/kubectl", Programs: programs, More: []string{kubectl(t)}, Env: []string{"RUNTIME=fake"},
	})
}

// TestKubectlFakeCommands runs kubectl's commands with the in-process runtime.
func TestKubectlFakeCommands(t *testing.T) {
	showsScripts(t, "kubectl", "testdata/commands")
	scenario.Run(t, scenario.Config{Dir: "testdata/commands", Programs: programs, More: []string{kubectl(t)}})
}

// needContainerd skips the test if containers cannot run.
func needContainerd(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containerd needs root")
	}
	if _, err := exec.LookPath("containerd"); err != nil {
		t.Skip("containerd is not installed")
	}
}

// TestKubectlStreams runs the commands that need running containers.
func TestKubectlStreams(t *testing.T) {
	needContainerd(t)
	scenario.Run(t, scenario.Config{
		Dir: "testdata/containerd", Programs: programs, More: []string{kubectl(t)}, OneByOne: true,
	})
}

func TestKubectlContainerd(t *testing.T) {
	needContainerd(t)
	scenario.Run(t, scenario.Config{
		Dir: "testdata/kubectl", Programs: programs, More: []string{kubectl(t)}, Env: []string{"RUNTIME=containerd"}, OneByOne: true,
	})
}
