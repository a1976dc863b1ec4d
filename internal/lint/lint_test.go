package lint

import (
	"bytes"
	"fmt"
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
			t.Errorf("%s: %v", path, err)
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

func TestVet(t *testing.T) {
	run(t, ".", "vet", "./...")
	run(t, "compat", "vet", "./...")
}

func TestStaticcheck(t *testing.T) {
	run(t, ".", "tool", "-modfile=internal/lint/tools.mod", "staticcheck", "./...")
}

func TestTidy(t *testing.T) {
	for _, module := range []string{".", "compat"} {
		run(t, module, "mod", "tidy", "-diff")
	}
}

func run(t *testing.T, module string, arguments ...string) {
	t.Helper()
	cmd := exec.Command("go", arguments...)
	cmd.Dir = filepath.Join(root, module)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Error(fmt.Errorf("go %s in %s: %w\n%s", strings.Join(arguments, " "), module, err, out))
	}
}
