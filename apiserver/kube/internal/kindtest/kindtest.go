// Package kindtest tests the kinds of an API group by examples in files.
//
//	func TestKinds(t *testing.T) { kindtest.Run(t, apps.Resources()) }
//
// The files are in testdata/columns, testdata/defaults and testdata/validation of the package under
// test. Their names begin with the plural of a kind.
package kindtest

import (
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/planekit/planekit/apiserver"
)

// Run tests resources by the files in the current directory. It requires files for each resource.
func Run(t *testing.T, resources []apiserver.Resource) {
	tested := map[string]bool{}
	t.Run("columns", func(t *testing.T) { columns(t, resources) })
	t.Run("defaults", func(t *testing.T) { defaults(t, resources) })
	t.Run("validation", func(t *testing.T) { validation(t, resources) })
	for _, directory := range []string{"columns", "validation"} {
		for file := range read(t, directory) {
			tested[file] = true
		}
	}
	for _, r := range resources {
		if !tested[r.Plural+".yaml"] {
			t.Errorf("testdata has no %s.yaml", r.Plural)
		}
	}
}

// read yields the names and the contents of the files in a directory of testdata.
func read(t *testing.T, directory string) iter.Seq2[string, string] {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", directory, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string, string) bool) {
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(filepath.Base(file), string(data)) {
				return
			}
		}
	}
}

// find returns the resource with a plural.
func find(t *testing.T, resources []apiserver.Resource, plural string) apiserver.Resource {
	t.Helper()
	at := slices.IndexFunc(resources, func(r apiserver.Resource) bool { return r.Plural == plural })
	if at < 0 {
		t.Fatalf("there is no resource %s", plural)
	}
	return resources[at]
}
