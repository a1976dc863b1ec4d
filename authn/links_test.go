package authn_test

import (
	"debug/buildinfo"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestModules builds a program with everything here that needs no JSON Web Token,
// and counts the modules that it is made of beside its own: not even the one that
// this package is in has need of another.
func TestModules(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "build", "-o", binary, "./testdata/program").CombinedOutput(); err != nil {
		t.Fatalf("go build of testdata/program: %v: %s", err, out)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if info.Main.Path != "github.com/planekit/planekit" {
		t.Errorf("built of %s", info.Main.Path)
	}
	for _, module := range info.Deps {
		t.Errorf("links %s", module.Path)
	}
}

// TestNoKubernetesTypes: neither the core nor any way of authenticating here is
// made of Kubernetes' types.
func TestNoKubernetesTypes(t *testing.T) {
	core := list(t, ".")
	if !slices.Contains(core, "github.com/planekit/planekit/authn/user") {
		t.Errorf("the core is made of %v", core)
	}
	for _, path := range core {
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && !strings.HasPrefix(path, "github.com/planekit/planekit/") {
			t.Errorf("the core links %s", path)
		}
	}
	for _, path := range list(t, "./x509", "./tokenfile", "./basicauth", "./bootstraptoken", "./requestheader", "./anonymous", "./tokencache", "./reload") {
		if strings.HasPrefix(path, "k8s.io/") || strings.HasPrefix(path, "sigs.k8s.io/") {
			t.Errorf("links %s", path)
		}
	}
}

// list returns everything that packages are made of.
func list(t *testing.T, packages ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-deps"}, packages...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}
