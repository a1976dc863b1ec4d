package kube_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/kube"
)

// A row has the parts of a row of package kinds that its source shows.
type row struct{ goType, kind, plural string }

// TestKinds compares the rows of package kinds with the resources that are served.
func TestKinds(t *testing.T) {
	rows := kindRows(t)
	var served []row
	for _, r := range kube.Resources() {
		one := reflect.TypeOf(r.New()).Elem()
		served = append(served, row{one.PkgPath() + "." + one.Name(), r.Kind, r.Plural})
	}
	for _, r := range served {
		if !slices.Contains(rows, r) {
			t.Errorf("package kinds has no row for %+v", r)
		}
	}
	for _, r := range rows {
		if !slices.Contains(served, r) {
			t.Errorf("no resource is made of the row %+v", r)
		}
	}
	if len(rows) != len(served) || len(rows) == 0 {
		t.Errorf("%d rows, %d resources", len(rows), len(served))
	}
}

// kindRows reads the table of package kinds.
func kindRows(t *testing.T) (rows []row) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../kinds/table.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		paths[name] = path
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		of, ok := literal.Type.(*ast.IndexExpr)
		if !ok {
			return true
		}
		object := of.Index.(*ast.StarExpr).X.(*ast.SelectorExpr)
		texts := stringFields(literal)
		rows = append(rows, row{paths[object.X.(*ast.Ident).Name] + "." + object.Sel.Name, texts["Kind"], texts["Plural"]})
		return true
	})
	return rows
}

// stringFields returns the fields of literal that are set to constant strings.
func stringFields(literal *ast.CompositeLit) map[string]string {
	texts := map[string]string{}
	for _, e := range literal.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		name, named := field.Key.(*ast.Ident)
		value, constant := field.Value.(*ast.BasicLit)
		if named && constant && value.Kind == token.STRING {
			texts[name.Name], _ = strconv.Unquote(value.Value)
		}
	}
	return texts
}

// TestKindsAreDescribedOnce requires that no package of the server, of the clients and of the
// plane describes a kind of the table again. Where it needs one, it takes the row.
func TestKindsAreDescribedOnce(t *testing.T) {
	again := map[string]bool{}
	for _, r := range kindRows(t) {
		again[r.kind+" "+r.plural] = true
	}
	for _, dir := range []string{"../../apiserver", "../../client", "../../plane", "../../kinds"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == "../../kinds/table.go" {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.CompositeLit); ok {
					if texts := stringFields(literal); again[texts["Kind"]+" "+texts["Plural"]] {
						t.Errorf("%s describes %s again", files.Position(n.Pos()), texts["Plural"])
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
