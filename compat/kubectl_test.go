package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/internal/scenario"
)

var programs string

func TestMain(m *testing.M) { scenario.Main(m, &programs) }

// kubectlVersion is what the released kubectl says of itself; it refuses to
// compare versions otherwise.
const kubectlVersion = "-X k8s.io/component-base/version.gitVersion=v1.36.3 " +
	"-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"

// kubectl builds the stock kubectl and returns the directory it is in.
func kubectl(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-ldflags", kubectlVersion, "-o", filepath.Join(dir, "kubectl"), "./cmd/kubectl")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build kubectl: %v\n%s", err, out)
	}
	return dir
}

func TestKubectlFake(t *testing.T) {
	scenario.Run(t, scenario.Config{
		Dir: "testdata/kubectl", Programs: programs, More: []string{kubectl(t)}, Env: []string{"RUNTIME=fake"},
	})
}

func TestKubectlContainerd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("containerd needs root")
	}
	if _, err := exec.LookPath("containerd"); err != nil {
		t.Skip("containerd is not installed")
	}
	scenario.Run(t, scenario.Config{
		Dir: "testdata/kubectl", Programs: programs, More: []string{kubectl(t)}, Env: []string{"RUNTIME=containerd"},
	})
}
