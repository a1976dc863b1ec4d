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
)

// TestEveryControllerIsPerturbed checks that a scenario runs each controller. The controllers are
// read off the source: the types with a loop inside whose constructor takes a Config.
func TestEveryControllerIsPerturbed(t *testing.T) {
	perturbed := map[string]bool{}
	for _, s := range scenarios() {
		synctest.Test(t, func(t *testing.T) {
			st, _, end := s.begin(t, 1)
			defer end()
			p := st.run(lag{})
			for _, r := range p.runners {
				perturbed[strings.TrimPrefix(fmt.Sprintf("%T", r), "*")] = true
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
	if len(all) < 20 {
		t.Errorf("only %d controllers are in the source: %v", len(all), all)
	}
}

func controllersInSource(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*/*.go")
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
				if of := makes(d); of != "" {
					made[file.Name.Name+"."+of] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok && hasLoop(spec) {
						looped[file.Name.Name+"."+spec.Name.Name] = true
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

// makes returns the type that an exported constructor makes of a Config, or "".
func makes(f *ast.FuncDecl) string {
	if f.Recv != nil || !strings.HasPrefix(f.Name.Name, "New") || len(f.Type.Params.List) != 1 || f.Type.Results == nil {
		return ""
	}
	config, ok := f.Type.Params.List[0].Type.(*ast.Ident)
	if !ok || !strings.HasSuffix(config.Name, "Config") {
		return ""
	}
	pointer, ok := f.Type.Results.List[0].Type.(*ast.StarExpr)
	if !ok {
		return ""
	}
	of, ok := pointer.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return of.Name
}

// hasLoop reports whether a type embeds a *reconcile.Controller.
func hasLoop(spec *ast.TypeSpec) bool {
	s, ok := spec.Type.(*ast.StructType)
	return ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
		pointer, ok := f.Type.(*ast.StarExpr)
		if !ok || len(f.Names) > 0 {
			return false
		}
		of, ok := pointer.X.(*ast.IndexExpr)
		if !ok {
			return false
		}
		inside, ok := of.X.(*ast.SelectorExpr)
		return ok && inside.Sel.Name == "Controller"
	})
}
