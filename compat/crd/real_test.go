//go:build definitions

package crd

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/crd/rules"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kinds/apiextensions"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/customresources"
	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	upstreamv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	upstreamvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

var (
	objects     = flag.Int("objects", 2, "random objects of each version of the definitions of well-known projects")
	corruptions = flag.Int("corruptions", 1, "how often to change a value of each of these definitions")
	large       = flag.Bool("large", false, "also download the modules of well-known projects that are large")
)

// projects are modules with definitions, and where in them these are. Continuous integration downloads the small
// ones.
var projects = []struct {
	module, dir string
	large       bool
}{
	{"github.com/argoproj/argo-cd/v3@v3.2.0", "manifests/crds", true},
	{"github.com/argoproj/argo-workflows/v4@v4.0.5", "manifests/base/crds/full", true},
	{"github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds", false},
	{"github.com/crossplane/crossplane@v1.20.0", "cluster/crds", true},
	{"github.com/external-secrets/external-secrets@v1.3.2", "config/crds/bases", true},
	{"github.com/kedacore/keda/v2@v2.21.0", "config/crd/bases", false},
	{"github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd-full", true},
	{"k8s.io/kubernetes@v1.36.3", "cluster/addons/volumesnapshots/crd", false},
	{"sigs.k8s.io/cluster-api@v1.14.2", "core/config/crd/bases", true},
	{"sigs.k8s.io/gateway-api@v1.6.3", "config/crd/experimental", false},
	{"sigs.k8s.io/mcs-api@v0.5.2", "config/crd", false},
}

// realDefinitions returns the definitions of the projects.
func realDefinitions(t *testing.T) []*apiextensions.CustomResourceDefinition {
	t.Helper()
	var all []*apiextensions.CustomResourceDefinition
	for _, p := range projects {
		if p.large && !*large {
			continue
		}
		out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", p.module).Output()
		var module struct{ Dir, Error string }
		if json.Unmarshal(out, &module) != nil || module.Dir == "" {
			t.Fatalf("go mod download %s: %v, output %s, error %q, want a Dir", p.module, err, out, module.Error)
		}
		more, err := customresources.Load(filepath.Join(module.Dir, p.dir))
		if err != nil || len(more) == 0 {
			t.Fatalf("%s: %d definitions: %v", p.module, len(more), err)
		}
		all = append(all, more...)
	}
	return all
}

// TestRealDefinitions creates the definitions of well-known projects. Those that upstream accepts are accepted, and
// established. Those with a changed value are refused for the same reasons.
func TestRealDefinitions(t *testing.T) {
	config := plane.Config{NoControllers: true, NoScheduler: true}
	customresources.Enable(&config)
	p, err := plane.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-p.Ready()
	definitions := client.For(p.Client(), customresources.Definitions)
	all := realDefinitions(t)
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	for i, d := range all {
		for j := range *corruptions {
			compareCorrupted(t, p.Client(), generator{rand.New(rand.NewPCG(first+uint64(i), uint64(j)))}, d)
		}
	}
	for _, d := range all {
		want := theirsOf(t, d)
		d.ResourceVersion = ""
		_, err := definitions.Create(t.Context(), d)
		if len(want) == 0 && err != nil || len(want) > 0 && err == nil {
			t.Errorf("%s: %v, want %q", d.Name, err, want)
		}
	}
	for _, d := range all {
		await(t, d.Name, func() bool {
			now, err := definitions.Get(t.Context(), "", d.Name)
			return err == nil && slices.ContainsFunc(now.Status.Conditions, func(c apiextensions.CustomResourceDefinitionCondition) bool {
				return c.Type == "Established" && c.Status == "True"
			})
		})
	}
	t.Logf("%d definitions", len(all))
}

// wholeValue is a whole schema, or all versions, in an error.
var wholeValue = regexp.MustCompile(`(?s)(spec\.versions: Invalid value: )\[.*(\]: must )|(Invalid value: )["\[{].{300,}(: )`)

// compareCorrupted compares what is wrong with a definition in which one value has been changed.
func compareCorrupted(t *testing.T, api *client.Client, g generator, d *apiextensions.CustomResourceDefinition) {
	t.Helper()
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	delete(tree, "status")
	at := "spec" + g.corrupt(tree["spec"])
	if data, err = json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	changed := &apiextensions.CustomResourceDefinition{}
	if json.Unmarshal(data, changed) != nil {
		return // a value of the wrong type
	}
	want, ok := theirsOrPanic(t, changed)
	if !ok {
		return
	}
	_, err = api.Do(t.Context(), client.Request{
		Method: http.MethodPost, Path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", Query: url.Values{"dryRun": {"All"}}, Body: data,
	})
	var got []string
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, c := range status.Status().Details.Causes {
			got = append(got, c.Field+": "+c.Message)
		}
	}
	if err != nil && status == nil {
		return // the answer is longer than a client reads
	}
	if err != nil && len(got) == 0 {
		got = append(got, err.Error())
	}
	for _, all := range [][]string{got, want} {
		for i := range all { // upstream shows its internal type
			all[i] = wholeValue.ReplaceAllString(all[i], "$1$2$3$4")
		}
		slices.Sort(all)
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("%s with another value at %s:\nours   %q\ntheirs %q", d.Name, at, got, want)
	}
}

// corrupt changes one value below v, a map, and returns its path.
func (g generator) corrupt(v any) string {
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		if len(names) == 0 {
			v["type"] = "nonsense"
			return ".type"
		}
		name := pick(g, names...)
		if below := g.corruptBelow(v[name]); below != "" {
			return "." + name + below
		}
		switch old := v[name]; {
		case g.one(3):
			delete(v, name)
		case g.one(2):
			v[pick(g, "default", "nullable", "enum", "minimum", "type", "x-kubernetes-list-type", "uniqueItems", "items", name)] = old
		default:
			v[name] = pick[any](g, "", "Nonsense", "a\nb", "string", "self.a == 1", 1, -1, true, false, nil, map[string]any{}, []any{})
		}
		return "." + name
	case []any:
		if len(v) > 0 {
			i := g.IntN(len(v))
			if below := g.corruptBelow(v[i]); below != "" {
				return fmt.Sprintf("[%d]%s", i, below)
			}
			v[i] = pick[any](g, "", "Nonsense", v[0], map[string]any{})
			return fmt.Sprintf("[%d]", i)
		}
	}
	return ""
}

// corruptBelow mostly goes on into maps and lists.
func (g generator) corruptBelow(v any) string {
	if g.one(8) {
		return ""
	}
	return g.corrupt(v)
}

// theirsOrPanic is theirsOf, and reports whether upstream did not panic, as it does for selectable fields without a
// schema.
func theirsOrPanic(t *testing.T, d *apiextensions.CustomResourceDefinition) (all []string, ok bool) {
	defer func() {
		if recover() != nil {
			all, ok = nil, false
		}
	}()
	return theirsOf(t, d), true
}

// theirsOf returns what upstream finds wrong with a new definition.
func theirsOf(t *testing.T, d *apiextensions.CustomResourceDefinition) []string {
	t.Helper()
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var v1 upstreamv1.CustomResourceDefinition
	if err := json.Unmarshal(data, &v1); err != nil {
		t.Fatal(err)
	}
	upstreamv1.SetObjectDefaults_CustomResourceDefinition(&v1)
	v1.Status.StoredVersions = nil
	for _, v := range v1.Spec.Versions {
		if v.Storage {
			v1.Status.StoredVersions = append(v1.Status.StoredVersions, v.Name)
			break
		}
	}
	var internal upstream.CustomResourceDefinition
	if err := upstreamv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&v1, &internal, nil); err != nil {
		t.Fatal(err)
	}
	return texts(upstreamvalidation.ValidateCustomResourceDefinition(t.Context(), &internal))
}

// TestRealObjects compares random objects, and changes of them, of the definitions of well-known projects.
func TestRealObjects(t *testing.T) {
	compiler, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	var valid, wrong int
	for _, d := range realDefinitions(t) {
		for i := range d.Spec.Versions {
			v := &d.Spec.Versions[i]
			t.Run(d.Name+"/"+v.Name, func(t *testing.T) {
				text, err := json.Marshal(v.Schema.OpenAPIV3Schema)
				if err != nil {
					t.Fatal(err)
				}
				r := realSchema{t: t, both: compileBoth(t, text), text: []byte(d.Name), compiler: compiler}
				if r.both == nil || !r.both.structural {
					t.Fatal("the schema is not structural")
				}
				r.compile(text)
				for j := range *objects {
					g := generator{rand.New(rand.NewPCG(first, uint64(j)))}
					a, b := r.compare(g)
					valid, wrong = valid+a, wrong+b
				}
			})
		}
	}
	t.Logf("first seed %d: %d objects valid by their rules, %d not", first, valid, wrong)
}

// realSchema is the schema of a version, as each side has it.
type realSchema struct {
	t        *testing.T
	both     *both
	text     []byte
	compiler *rules.Compiler
	made     map[string]any
	mine     interface {
		Validate(ctx context.Context, obj, old map[string]any, warn func(string)) field.ErrorList
	}
	theirs *schemacel.Validator
	schema *schema.Structural
}

func (r *realSchema) compile(text []byte) {
	if err := json.Unmarshal(text, &r.made); err != nil {
		r.t.Fatal(err)
	}
	r.mine = r.compiler.Compile(r.both.ours)
	r.schema = r.both.theirs
	r.theirs = schemacel.NewValidator(r.schema, true, celconfig.PerCallLimit)
}

// compare compares an object and three changes of it.
func (r *realSchema) compare(g generator) (valid, wrong int) {
	var old map[string]any
	for i := range 4 {
		obj := r.next(g, old)
		r.both.validate(r.t, r.text, obj, old)
		obj = r.both.complete(r.t, r.text, obj)
		r.both.validate(r.t, r.text, obj, old)
		if len(r.both.ours.Validate(t.Context(), nil, obj)) > 0 && i > 0 {
			continue // rules are for objects that the schema allows
		}
		ours, theirs := clone(obj), clone(obj)
		for _, o := range []map[string]any{ours, theirs} {
			o["apiVersion"], o["kind"], o["metadata"] = "example.com/v1", "Thing", map[string]any{"name": "n"}
		}
		if r.theirs != nil {
			var was any
			var options []schemacel.Option
			if old != nil {
				was = old
				options = append(options, schemacel.WithRatcheting(common.NewCorrelatedObject(theirs, old, &model.Structural{Structural: r.schema})))
			}
			want, _ := r.theirs.Validate(r.t.Context(), nil, r.schema, theirs, was, celconfig.RuntimeCELCostBudget, options...)
			got := r.mine.Validate(r.t.Context(), ours, old, func(string) {})
			if a, b := plain(got), plain(want); !slices.Equal(a, b) {
				r.t.Fatalf("%s: %s of %s\nours   %q\ntheirs %q", r.text, encode(obj), encode(old), a, b)
			}
			if len(want) == 0 {
				valid++
			} else {
				wrong++
			}
		}
		old = ours
	}
	return valid, wrong
}

// next returns a new object, or a change of old.
func (r *realSchema) next(g generator, old map[string]any) map[string]any {
	data, err := json.Marshal(g.sample(r.made, 9, true))
	var obj map[string]any
	if err != nil || utiljson.Unmarshal(data, &obj) != nil || obj == nil {
		r.t.Fatalf("%s: %v", data, err)
	}
	for name, v := range clone(old) {
		if g.one(2) {
			obj[name] = v
		}
	}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(obj, name)
	}
	return obj
}

// sample returns a value that s allows, but for a few mistakes.
func (g generator) sample(s map[string]any, depth int, root bool) any {
	of, _ := s["type"].(string)
	switch {
	case root:
		of = "object"
	case g.one(60):
		return g.value(pick(g, of, "string", "null"), 1)
	case len(list(s["enum"])) > 0:
		return pick(g, list(s["enum"])...)
	case s["default"] != nil && g.one(3):
		return s["default"]
	case s["x-kubernetes-int-or-string"] == true:
		return pick[any](g, 1, "10%", "http")
	}
	switch of {
	case "object":
		return g.sampleObject(s, depth)
	case "array":
		items := []any{}
		below, _ := s["items"].(map[string]any)
		for range g.IntN(3) {
			if depth > 0 {
				items = append(items, g.sample(below, depth-1, false))
			}
		}
		return items
	case "string":
		return g.sampleString(s)
	case "integer", "number":
		least, _ := s["minimum"].(float64)
		return int64(least) + int64(g.IntN(3))
	}
	return g.value(pick(g, of, "string", "object"), 1)
}

func (g generator) sampleObject(s map[string]any, depth int) any {
	fields := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	required := list(s["required"])
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if depth > 0 && (slices.Contains(required, any(name)) || g.IntN(2+len(properties)/4) == 0) || name == "spec" {
			fields[name] = g.sample(properties[name].(map[string]any), depth-1, false)
		}
	}
	if more, ok := s["additionalProperties"].(map[string]any); ok && depth > 0 {
		for range g.IntN(3) {
			fields[pick(g, "a", "b", "example.com/c")] = g.sample(more, depth-1, false)
		}
	}
	if g.one(30) {
		fields["unknown"] = g.value("object", 1)
	}
	return fields
}

func (g generator) sampleString(s map[string]any) any {
	switch s["format"] {
	case "date-time":
		return pick(g, "2020-01-01T00:00:00Z", "2022-01-01T00:00:00.5Z")
	case "byte":
		return "YQ=="
	case "duration":
		return pick(g, "5s", "1h")
	}
	text := pick(g, "a", "b", "example", "example.com", "Example", "5s", "1h30m", "10Mi", "*", "/path", "1.2.3.4", "core", "")
	if least, ok := s["minLength"].(float64); ok {
		text += strings.Repeat("x", max(0, int(least)-len(text)))
	}
	return text
}

func list(v any) []any {
	all, _ := v.([]any)
	return all
}
