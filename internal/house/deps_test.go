package house

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/planekit/planekit"

// forbidden lists the modules that planekit replaces. They may be imported in bench/
// and compat/ only, which are modules of their own.
var forbidden = []string{
	"k8s.io/apiserver", "k8s.io/client-go", "k8s.io/kubernetes", "k8s.io/kubectl", "k8s.io/kube-scheduler",
	"sigs.k8s.io/controller-runtime", "github.com/containernetworking",
}

// imports returns what every package of the module imports beyond the standard
// library, by the package's path in the module. Test files are left out: a test
// may join what the rooms may not.
func imports(t *testing.T) (packages map[string]map[string]bool, everywhere map[string]string) {
	t.Helper()
	packages, everywhere = map[string]map[string]bool{}, map[string]string{}
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path == "bench" || path == "compat" || path == "bin" || name == "testdata" || (name != "." && strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if standard(imported) {
				continue
			}
			everywhere[imported] = path
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			if packages[pkg] == nil {
				packages[pkg] = map[string]bool{}
			}
			packages[pkg][strings.TrimPrefix(imported, module+"/")] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages, everywhere
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// under reports whether path is prefix or lies below it. What ends in a slash is
// what lies below alone.
func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
}

// TestWalls checks that every import is allowed by the tables of walls, and that every allowance is
// used.
func TestWalls(t *testing.T) {
	packages, _ := imports(t)
	used := map[string]bool{}
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		for _, imported := range slices.Sorted(maps.Keys(packages[pkg])) {
			if allowance, ok := allowed(pkg, imported); ok {
				used[allowance] = true
			} else {
				t.Errorf("%s may not import %s", pkg, imported)
			}
		}
	}
	for _, wall := range walls {
		for _, a := range wall.may {
			if !used[key(wall, a)] {
				t.Errorf("nothing in %s imports %s any more", wall.packages, a.path)
			}
			if a.why == "" {
				t.Errorf("%s may import %s without a reason", wall.packages, a.path)
			}
		}
	}
}

// allowed finds the first allowance that covers pkg importing imported.
func allowed(pkg, imported string) (string, bool) {
	for _, a := range everybodyMay {
		if under(imported, a.path) {
			return "everybody imports " + a.path, true
		}
	}
	for _, wall := range walls {
		if !under(pkg, wall.packages) {
			continue
		}
		for _, a := range wall.may {
			if under(imported, a.path) {
				return key(wall, a), true
			}
		}
		if wall.closed {
			return "", false
		}
	}
	return "", false
}

func key(w wall, a allowance) string { return fmt.Sprintf("%s imports %s", w.packages, a.path) }

func TestForbidden(t *testing.T) {
	_, everywhere := imports(t)
	for imported, file := range everywhere {
		for _, prefix := range forbidden {
			if under(imported, prefix) {
				t.Errorf("%s imports %s, which planekit exists to replace", file, imported)
			}
		}
	}
}
