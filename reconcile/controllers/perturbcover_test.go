package controllers_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/reconcile/controllers"
)

// TestEveryControllerIsPerturbed: no controller is without a scenario that runs
// it. What they are is read off the source: the types with a constructor that
// takes their Config and that have a loop inside.
func TestEveryControllerIsPerturbed(t *testing.T) {
	perturbed := map[string]bool{}
	for _, s := range scenarios() {
		synctest.Test(t, func(t *testing.T) {
			st, _, end := s.begin(t, 1)
			defer end()
			p := st.run(lag{})
			for _, r := range p.runners {
				perturbed[strings.TrimPrefix(fmt.Sprintf("%T", r), "*controllers.")] = true
			}
			p.stop(t)
		})
	}
	all := controllersInSource(t)
	for _, name := range all {
		if !perturbed[name] {
			t.Errorf("no scenario runs %s", name)
		}
	}
	if known := len(controllers.KnownControllers()); len(all) != known {
		t.Errorf("in the source are %d controllers, known are %d: %v", len(all), known, all)
	}
}

func controllersInSource(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	looped, made := map[string]bool{}, map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if of, ok := strings.CutPrefix(d.Name.Name, "New"); ok && takesConfig(d, of) {
					made[of] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok && hasLoop(spec) {
						looped[spec.Name.Name] = true
					}
				}
			}
		}
	}
	for name := range made {
		if looped[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func takesConfig(f *ast.FuncDecl, of string) bool {
	if f.Recv != nil || len(f.Type.Params.List) != 1 {
		return false
	}
	config, ok := f.Type.Params.List[0].Type.(*ast.Ident)
	return ok && config.Name == of+"Config"
}

func hasLoop(spec *ast.TypeSpec) bool {
	s, ok := spec.Type.(*ast.StructType)
	return ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
		pointer, ok := f.Type.(*ast.StarExpr)
		if !ok || len(f.Names) > 0 {
			return false
		}
		inside, ok := pointer.X.(*ast.Ident)
		return ok && inside.Name == "loop"
	})
}
