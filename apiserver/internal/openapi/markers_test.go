package openapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write markers.txt anew from the sources")

// TestMarkersAreThoseOfTheSources reads the comments in the sources of the
// Kubernetes types and compares them with the table.
func TestMarkersAreThoseOfTheSources(t *testing.T) {
	var text strings.Builder
	api, machinery := moduleDir(t, "k8s.io/api"), moduleDir(t, "k8s.io/apimachinery")
	packages := map[string]string{"k8s.io/apimachinery/pkg/apis/meta/v1": filepath.Join(machinery, "pkg/apis/meta/v1")}
	dirs, err := filepath.Glob(filepath.Join(api, "*", "v[12]"))
	if err != nil || len(dirs) == 0 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		packages["k8s.io/api/"+filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir)] = dir
	}
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		if lines := markersIn(t, packages[path]); len(lines) > 0 {
			fmt.Fprintf(&text, "%s\n%s\n", path, strings.Join(lines, "\n"))
		}
	}
	if *update {
		if err := os.WriteFile("markers.txt", []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text.String() != markersText {
		t.Error("markers.txt is not what the sources say: run this test with -update")
	}
}

func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// markersIn returns the lines of one package's types, in order.
func markersIn(t *testing.T, dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		end := file.Name.End()
		for _, decl := range file.Decls {
			lines = append(lines, declared(file, decl, end)...)
			end = decl.End()
		}
	}
	slices.Sort(lines)
	return lines
}

// declared returns the lines of a declaration, with the comments after from.
func declared(file *ast.File, decl ast.Decl, from token.Pos) []string {
	types, ok := decl.(*ast.GenDecl)
	if !ok || types.Tok != token.TYPE {
		return nil
	}
	var lines []string
	for _, spec := range types.Specs {
		spec := spec.(*ast.TypeSpec)
		var above []*ast.CommentGroup
		for _, c := range file.Comments {
			if c.Pos() > from && c.End() <= spec.Pos() {
				above = append(above, c)
			}
		}
		lines = appendMarked(lines, spec.Name.Name, above)
		body, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range body.Fields.List {
			if f.Tag == nil || f.Doc == nil {
				continue
			}
			tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
			if name, _, _ := strings.Cut(tag, ","); name != "" && name != "-" {
				lines = appendMarked(lines, spec.Name.Name+"."+name, []*ast.CommentGroup{f.Doc})
			}
		}
	}
	return lines
}

func appendMarked(lines []string, name string, comments []*ast.CommentGroup) []string {
	words := []string{name}
	for _, group := range comments {
		for _, c := range group.List {
			text, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(c.Text, "//")), "+")
			what, value, given := strings.Cut(text, "=")
			if !ok || !given {
				continue
			}
			value = strings.TrimSpace(value)
			switch what {
			case "listType":
				words = append(words, "list="+value)
			case "listMapKey":
				words = append(words, "key="+value)
			case "mapType", "structType":
				words = append(words, "map="+value)
			case "default":
				if json.Valid([]byte(value)) && !strings.ContainsAny(value, " {[") {
					words = append(words, "default="+value)
				}
			}
		}
	}
	if len(words) == 1 {
		return lines
	}
	return append(lines, strings.Join(words, " "))
}

func TestMarkersReachTheSchemas(t *testing.T) {
	s := schemas{}
	container := s[s.add(reflect.TypeFor[corev1.Container]())]
	if p := container.Properties["ports"]; p.ListType != "map" || !slices.Equal(p.ListMapKeys, []string{"containerPort", "protocol"}) {
		t.Errorf("ports: %+v", p)
	}
	if p := s["io.k8s.api.core.v1.ContainerPort"].Properties["protocol"]; string(p.Default) != `"TCP"` {
		t.Errorf("protocol: %s", p.Default)
	}
	if selector := s[s.add(reflect.TypeFor[metav1.LabelSelector]())]; selector.MapType != "atomic" {
		t.Errorf("label selector: %+v", selector)
	}
	meta := s[s.add(reflect.TypeFor[metav1.ObjectMeta]())]
	if f := meta.Properties["finalizers"]; f.ListType != "set" {
		t.Errorf("finalizers: %+v", f)
	}
}
