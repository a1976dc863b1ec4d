package lint

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	root = "../.."
	// maxFile and maxFunction are in lines. Past them, look for the second idea.
	maxFile     = 500
	maxFunction = 80
)

// sources calls each for every Go file of the repository.
func sources(t *testing.T, each func(path string, source []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == "testdata" || name == "bin" || (strings.HasPrefix(name, ".") && name != "." && name != "..") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err == nil {
			each(path, source)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFormat(t *testing.T) {
	sources(t, func(path string, source []byte) {
		formatted, err := format.Source(source)
		if err != nil {
			t.Errorf("format.Source(%s): %v", path, err)
		} else if !bytes.Equal(source, formatted) {
			t.Errorf("%s: not formatted by gofmt", path)
		}
	})
}

func TestSizes(t *testing.T) {
	files := token.NewFileSet()
	sources(t, func(path string, source []byte) {
		if lines := bytes.Count(source, []byte("\n")); lines > maxFile {
			t.Errorf("%s has %d lines, more than %d", path, lines, maxFile)
		}
		file, err := parser.ParseFile(files, path, source, 0)
		if err != nil {
			t.Error(err)
			return
		}
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := files.Position(function.End()).Line - files.Position(function.Pos()).Line
			if lines > maxFunction {
				t.Errorf("%s: %s has %d lines, more than %d", path, function.Name.Name, lines, maxFunction)
			}
		}
	})
}

func TestPackageComments(t *testing.T) {
	files := token.NewFileSet()
	documented := map[string]bool{}
	sources(t, func(path string, source []byte) {
		dir := filepath.Dir(path)
		if strings.HasSuffix(path, "_test.go") {
			return // a folder with tests only, such as the root, documents nothing
		}
		file, err := parser.ParseFile(files, path, source, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Error(err)
			return
		}
		documented[dir] = documented[dir] || file.Doc != nil
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("the package in %s has no package comment", dir)
		}
	}
}

// The modules are read in the way in which their tests are built, so that what the
// build made of their dependencies is read again and nothing is compiled for the
// linters alone: the root with the race detector where this test has it, the others
// as make test builds them.

func TestVet(t *testing.T) {
	run(t, ".", nil, append([]string{"vet"}, append(raceFlag, "./...")...)...)
	for _, module := range []string{"compat", "bench"} {
		run(t, module, release, "vet", "./...")
	}
}

func TestStaticcheck(t *testing.T) {
	// go tool builds staticcheck and prints where it is. It must not be built by the
	// flags with which it reads packages.
	program := strings.TrimSpace(run(t, ".", nil, "tool", "-modfile=internal/lint/tools.mod", "-n", "staticcheck"))
	cmd := exec.Command(program, "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.Join(append([]string{os.Getenv("GOFLAGS")}, raceFlag...), " "))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("staticcheck: %v\n%s", err, out)
	}
}

func TestTidy(t *testing.T) {
	for _, module := range []string{".", "compat", "bench"} {
		run(t, module, nil, "mod", "tidy", "-diff")
	}
}

// release is how make test builds the tests of the nested modules.
var release = []string{"CGO_ENABLED=0", "GOFLAGS=" + os.Getenv("GOFLAGS") + " -trimpath -tags=grpcnotrace"}

// run runs go in a module and returns its standard output.
func run(t *testing.T, module string, environment []string, arguments ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd := exec.Command("go", arguments...)
	cmd.Dir, cmd.Env = filepath.Join(root, module), append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("go %s in %s: %v\n%s%s", strings.Join(arguments, " "), module, err, &stdout, &stderr)
	}
	return stdout.String()
}
