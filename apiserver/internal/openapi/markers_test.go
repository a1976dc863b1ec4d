package openapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
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
	named := map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		if lines := markersIn(t, packages[path], named); len(lines) > 0 {
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

// markersIn returns the lines of one package's types, in order. It adds its
// constants to named, which has those of the packages before.
func markersIn(t *testing.T, dir string, named map[string]string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	values := constants(parsed, named)
	var lines []string
	for _, file := range parsed {
		end := file.Name.End()
		for _, decl := range file.Decls {
			lines = append(lines, declared(file, decl, end, values, named)...)
			end = decl.End()
		}
	}
	slices.Sort(lines)
	return lines
}

// constants are the values of string constants by the type they are given, and,
// added to named, by name.
func constants(files []*ast.File, named map[string]string) map[string][]string {
	values := map[string][]string{}
	for _, file := range files {
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				if of, value := constant(spec.(*ast.ValueSpec), named); value != "" {
					values[of] = append(values[of], strings.Trim(value, `"`))
				}
			}
		}
	}
	for of, all := range values {
		slices.Sort(all)
		values[of] = slices.Compact(all)
	}
	return values
}

// constant is the type of a string constant, which stands before its value or
// is what that is converted to, and its value in quotes.
func constant(spec *ast.ValueSpec, named map[string]string) (of, value string) {
	if len(spec.Values) != 1 {
		return "", ""
	}
	kind, expression := spec.Type, spec.Values[0]
	if conversion, ok := expression.(*ast.CallExpr); ok && len(conversion.Args) == 1 {
		kind, expression = conversion.Fun, conversion.Args[0]
	}
	name, ok := kind.(*ast.Ident)
	if !ok {
		return "", ""
	}
	switch e := expression.(type) {
	case *ast.BasicLit:
		value = e.Value
	case *ast.SelectorExpr:
		value = named[e.Sel.Name]
	}
	if !strings.HasPrefix(value, `"`) {
		return "", ""
	}
	named[spec.Names[0].Name] = value
	return name.Name, value
}

// declared returns the lines of a declaration, with the comments after from and
// the values of constants by their type.
func declared(file *ast.File, decl ast.Decl, from token.Pos, values map[string][]string, named map[string]string) []string {
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
		lines = appendMarked(lines, spec.Name.Name, above, named, values[spec.Name.Name]...)
		body, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range body.Fields.List {
			if f.Tag == nil || f.Doc == nil {
				continue
			}
			tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
			if name, options, _ := strings.Cut(tag, ","); name != "" && name != "-" {
				lines = appendMarked(lines, spec.Name.Name+"."+name, []*ast.CommentGroup{f.Doc}, named, presence(f.Doc, options)...)
			}
		}
	}
	return lines
}

// presence returns what the comment of a field says of its presence, if the
// options of its JSON tag say otherwise.
func presence(comment *ast.CommentGroup, options string) []string {
	omitted := strings.Contains(options, "omit")
	for _, c := range comment.List {
		switch text := strings.TrimSpace(strings.TrimPrefix(c.Text, "//")); {
		case text == "+required" && omitted:
			return []string{"required"}
		case text == "+optional" && !omitted:
			return []string{"optional"}
		}
	}
	return nil
}

// appendMarked adds the line of a type, with the values it may have if it is
// marked as having no others, or of a field, with more words.
func appendMarked(lines []string, name string, comments []*ast.CommentGroup, named map[string]string, more ...string) []string {
	words := []string{name}
	field := strings.Contains(name, ".")
	if field {
		words = append(words, more...)
	}
	for _, group := range comments {
		for _, c := range group.List {
			text, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(c.Text, "//")), "+")
			what, value, given := strings.Cut(text, "=")
			if ok && !field && text == "enum" {
				for _, value := range more {
					words = append(words, "enum="+url.PathEscape(value))
				}
			}
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
				if name, ok := strings.CutPrefix(value, "ref("); ok {
					value = named[strings.TrimSuffix(name, ")")]
				}
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
	if p := container.Properties["imagePullPolicy"]; !slices.Equal(p.Enum, []string{"Always", "IfNotPresent", "Never"}) {
		t.Errorf("image pull policy: %v", p.Enum)
	}
	// A pointer that must be given, and fields whose comments overrule their tags.
	spec := s[s.add(reflect.TypeFor[appsv1.StatefulSetSpec]())]
	if !slices.Equal(spec.Required, []string{"selector", "template"}) {
		t.Errorf("stateful set: %v", spec.Required)
	}
	if review := s[s.add(reflect.TypeFor[authenticationv1.TokenReviewSpec]())]; !slices.Equal(review.Required, []string{"token"}) {
		t.Errorf("token review: %v", review.Required)
	}
	if disk := s[s.add(reflect.TypeFor[corev1.AzureDiskVolumeSource]())]; string(disk.Properties["kind"].Default) != `"Shared"` {
		t.Errorf("the default that is a constant: %s", disk.Properties["kind"].Default)
	}
	if selector := s[s.add(reflect.TypeFor[metav1.LabelSelector]())]; selector.MapType != "atomic" {
		t.Errorf("label selector: %+v", selector)
	}
	meta := s[s.add(reflect.TypeFor[metav1.ObjectMeta]())]
	if f := meta.Properties["finalizers"]; f.ListType != "set" {
		t.Errorf("finalizers: %+v", f)
	}
}
