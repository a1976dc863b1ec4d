package crd

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	upstreamv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
)

var (
	schemas = flag.Int("schemas", 1500, "random schemas to compare, with ten objects each")
	seed    = flag.Uint64("seed", 1, "the seed of the first schema; zero chooses one at random")
)

// generator makes random schemas and objects that mostly fit.
type generator struct{ *rand.Rand }

func (g generator) one(in int) bool { return g.IntN(in) == 0 }

func pick[T any](g generator, all ...T) T { return all[g.IntN(len(all))] }

var names = []string{"a", "b", "c", "metadata", "kind", "apiVersion", "spec"}

// schema returns a schema. A nested one restricts values only.
func (g generator) schema(depth int, nested bool) map[string]any {
	s := map[string]any{}
	of := pick(g, "object", "object", "array", "string", "integer", "number", "boolean")
	if depth == 0 && of == "object" || depth == 0 && of == "array" {
		of = "string"
	}
	if !nested || g.one(30) {
		s["type"] = of
		g.extensions(s, of)
	}
	g.values(s, of)
	if depth > 0 {
		g.below(s, of, depth-1, nested)
	}
	if depth > 0 && g.one(6) {
		for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
			if g.one(2) {
				s[keyword] = []any{g.schema(depth-1, true), g.schema(depth-1, true)}
			}
		}
		if g.one(3) {
			s["not"] = g.schema(depth-1, true)
		}
	}
	return s
}

func (g generator) extensions(s map[string]any, of string) {
	if g.one(8) {
		s["nullable"] = true
	}
	if g.one(10) {
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	if of == "object" && g.one(12) {
		s["x-kubernetes-embedded-resource"] = true
	}
	if g.one(15) {
		delete(s, "type")
		delete(s, "x-kubernetes-preserve-unknown-fields")
		s["x-kubernetes-int-or-string"] = true
		if g.one(2) {
			s["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
		}
	}
	if g.one(5) {
		s["default"] = g.value(of, 1)
	}
}

func (g generator) values(s map[string]any, of string) {
	add := func(keyword string, v any) {
		if g.one(6) {
			s[keyword] = v
		}
	}
	switch of {
	case "string":
		add("maxLength", g.IntN(5))
		add("minLength", g.IntN(3))
		add("pattern", pick(g, "^a", "b$", "^[a-c]*$"))
		add("format", pick(g, "date", "date-time", "ipv4", "uuid", "byte", "int32", "nonsense", "k8s-short-name"))
		add("enum", []any{"a", "b", "abc"})
	case "integer", "number":
		add("maximum", pick(g, 3.0, 2.5, 0.0, 1e18))
		add("minimum", pick(g, -3.0, 0.5, 2.0))
		add("exclusiveMaximum", true)
		add("exclusiveMinimum", true)
		add("multipleOf", pick(g, 2.0, 0.5))
		add("format", pick(g, "int32", "int64", "float", "double", "date"))
		add("enum", []any{1, 2, 2.5})
	case "array":
		add("maxItems", g.IntN(3))
		add("minItems", g.IntN(3))
	case "object":
		add("maxProperties", g.IntN(4))
		add("minProperties", g.IntN(3))
		add("required", []any{pick(g, names...)})
	}
}

func (g generator) below(s map[string]any, of string, depth int, nested bool) {
	switch {
	case of == "object" && g.one(4) && !nested:
		s["additionalProperties"] = pick[any](g, true, false, g.schema(depth, nested), g.schema(depth, nested))
	case of == "object":
		fields := map[string]any{}
		for range g.IntN(4) {
			fields[pick(g, names...)] = g.schema(depth, nested)
		}
		s["properties"] = fields
	case of == "array":
		s["items"] = g.schema(depth, nested)
		if g.one(3) && !nested {
			s["x-kubernetes-list-type"] = pick(g, "set", "map", "atomic")
			s["x-kubernetes-list-map-keys"] = []any{"a", "b"}[:1+g.IntN(2)]
		}
	}
}

// value returns a value, mostly of the type.
func (g generator) value(of string, depth int) any {
	if g.one(8) {
		of = pick(g, "object", "array", "string", "integer", "number", "boolean", "null")
	}
	switch of {
	case "string":
		return pick(g, "", "a", "b", "abc", "ccccc", "2020-01-01", "2020-01-01T00:00:00Z", "1.2.3.4", "YQ==")
	case "integer":
		return pick[any](g, int64(0), int64(1), int64(2), int64(-5), int64(1)<<40)
	case "number":
		return pick[any](g, 1.0, 2.5, -0.5, 3.0, int64(2), 1e300)
	case "boolean":
		return g.one(2)
	case "array":
		items := []any{}
		for range g.IntN(4) {
			items = append(items, g.value(pick(g, "object", "string", "integer"), depth-1))
		}
		return items
	case "object":
		fields := map[string]any{}
		for range g.IntN(4) {
			if depth > 0 {
				fields[pick(g, names...)] = g.value(pick(g, "object", "array", "string", "integer"), depth-1)
			}
		}
		return fields
	}
	return nil
}

// fitting returns a value that s mostly allows.
func (g generator) fitting(s map[string]any, depth int) any {
	of, _ := s["type"].(string)
	if g.one(10) || depth == 0 {
		return g.value(pick(g, of, "string"), 2)
	}
	switch of {
	case "object":
		fields := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) { // a seed makes the same objects each time
			if !g.one(3) {
				fields[name] = g.fitting(properties[name].(map[string]any), depth-1)
			}
		}
		if more, ok := s["additionalProperties"].(map[string]any); ok {
			fields["x"] = g.fitting(more, depth-1)
		}
		if g.one(4) {
			fields["unknown"] = g.value("object", 1)
		}
		return fields
	case "array":
		items := []any{}
		below, _ := s["items"].(map[string]any)
		for range g.IntN(4) {
			items = append(items, g.fitting(below, depth-1))
		}
		return items
	}
	return g.value(pick(g, of, "string"), 1)
}

// both holds a schema as each side has it.
type both struct {
	ours       *structural.Schema
	source     *apiextensions.JSONSchemaProps
	theirs     *schema.Structural
	validator  validation.SchemaValidator
	structural bool
}

// compileBoth compiles text and compares why it is refused.
func compileBoth(t testing.TB, text []byte) *both {
	t.Helper()
	b := &both{source: &apiextensions.JSONSchemaProps{}}
	var theirs upstreamv1.JSONSchemaProps
	if err := json.Unmarshal(text, b.source); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &theirs); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(b.source)
	if want, _ := json.Marshal(&theirs); err != nil || string(again) != string(want) {
		t.Fatalf("encoded as %s, want %s", again, want)
	}
	var internal upstream.JSONSchemaProps
	if err := upstreamv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&theirs, &internal, nil); err != nil {
		t.Fatal(err)
	}
	var errTheirs error
	b.theirs, errTheirs = schema.NewStructural(&internal)
	if b.ours, err = structural.Compile(t.Context(), b.source); (err == nil) != (errTheirs == nil) {
		t.Fatalf("%s: compiled with %v, want %v", text, err, errTheirs)
	}
	if err != nil {
		return nil
	}
	b.ours = b.ours.Shared()
	path := field.NewPath("schema")
	wrong := texts(structural.Check(path, b.source))
	if want := texts(schema.ValidateStructural(path, b.theirs)); !slices.Equal(wrong, want) {
		t.Fatalf("%s:\nours   %q\ntheirs %q", text, wrong, want)
	}
	if b.structural = len(wrong) == 0; b.structural {
		b.theirs = b.theirs.DeepCopy()
		if defaulting.PruneDefaults(b.theirs) != nil {
			return nil // the default of the root is no object
		}
	}
	if b.validator, _, err = validation.NewSchemaValidator(&internal); err != nil {
		t.Fatal(err)
	}
	return b
}

func texts(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func clone(v map[string]any) map[string]any { return runtime.DeepCopyJSON(v) }

// complete completes an object on both sides and compares the results.
func (b *both) complete(t *testing.T, text []byte, obj map[string]any) map[string]any {
	t.Helper()
	ours, theirs := clone(obj), clone(obj)
	unknown, err := b.ours.Complete(t.Context(), ours, true)
	want := pruning.PruneWithOptions(theirs, b.theirs, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(theirs, b.theirs)
	defaulting.Default(theirs, b.theirs)
	for _, name := range []string{"metadata", "kind", "apiVersion"} { // these are kept elsewhere
		delete(ours, name)
		delete(theirs, name)
	}
	if err != nil || !slices.Equal(unknown, want) || !reflect.DeepEqual(ours, theirs) {
		t.Fatalf("%s\n%v\nours   %v %q\ntheirs %v %q", text, obj, ours, unknown, theirs, want)
	}
	return ours
}

// validate compares what is wrong with an object, and with a change of old.
func (b *both) validate(t *testing.T, text []byte, obj, old map[string]any) {
	t.Helper()
	compare := func(what string, ours, theirs field.ErrorList) {
		t.Helper()
		if got, want := texts(ours), texts(theirs); !slices.Equal(got, want) {
			t.Fatalf("%s: %s\n%s of %s\nours   %q\ntheirs %q", what, text, encode(obj), encode(old), got, want)
		}
	}
	compare("validation", b.ours.Validate(t.Context(), nil, obj), validation.ValidateCustomResource(nil, obj, b.validator))
	if !b.structural {
		return
	}
	compare("lists", b.ours.ValidateLists(nil, obj), listtype.ValidateListSetsAndMaps(nil, b.theirs, obj))
	if old == nil {
		return
	}
	pair := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: b.theirs})
	compare("update", b.ours.ValidateUpdate(t.Context(), nil, obj, old, true), validation.ValidateCustomResourceUpdate(nil, obj, old, b.validator, validation.WithRatcheting(pair)))
	if !b.theirs.XEmbeddedResource {
		compare("metadata", b.ours.ValidateMetadata(nil, obj, true), objectmeta.Validate(nil, obj, b.theirs, false))
	}
}

func encode(v any) string {
	data, err := json.Marshal(v)
	return fmt.Sprint(string(data), strings.Repeat("!", map[bool]int{true: 1}[err != nil]))
}

// foundSeeds makes schemas that were once treated in another way than by upstream: a default in the metadata of
// an embedded resource, and a list of type map of items without its keys.
var foundSeeds = []uint64{1296204837545962636, 11654175178847388746}

// TestStructural compares random schemas, and random objects of them.
func TestStructural(t *testing.T) {
	for _, at := range foundSeeds {
		compareSeed(t, at)
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	accepted := 0
	for i := range *schemas {
		structural, ok := compareSeed(t, first+uint64(i))
		if !ok {
			return
		}
		if structural {
			accepted++
		}
	}
	if accepted < *schemas/10 {
		t.Errorf("only %d schemas of %d are structural", accepted, *schemas)
	}
}

// compareSeed compares the schema of a seed, and ten objects of it. It reports whether the schema is structural.
func compareSeed(t *testing.T, at uint64) (structural, ok bool) {
	g := generator{rand.New(rand.NewPCG(at, 0))}
	made := g.schema(3, false)
	if !g.one(5) {
		made["type"] = "object"
		delete(made, "additionalProperties")
	}
	text, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	ok = t.Run(fmt.Sprint("seed=", at), func(t *testing.T) {
		b := compileBoth(t, text)
		if b == nil {
			return
		}
		structural = b.structural
		var old map[string]any
		for range 10 {
			data, err := json.Marshal(g.fitting(made, 3))
			if err != nil {
				t.Fatal(err)
			}
			var obj map[string]any
			if utiljson.Unmarshal(data, &obj) != nil || obj == nil {
				continue
			}
			b.validate(t, text, obj, old)
			if b.structural {
				obj = b.complete(t, text, obj)
				b.validate(t, text, obj, old)
			}
			if old = clone(obj); len(old) > 0 && g.one(2) {
				old["a"] = g.value("string", 1)
			}
		}
	})
	return structural, ok
}
