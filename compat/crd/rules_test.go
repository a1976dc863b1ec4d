package crd

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/crd/rules"
	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	upstream "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	upstreamv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	upstreamvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"
)

var ruled = flag.Int("ruled", 1200, "random schemas with rules to compare, with six objects each")

// shape is a schema with names and types that expressions are made for.
type shape struct {
	of     string
	schema map[string]any
	fields map[string]*shape
	elem   *shape
}

var fieldNames = []string{"a", "b", "c-d", "e.f", "g__h", "i/j", "namespace", "in", "1x", "k l", "name", "x_y"}

// shape returns a schema. Few lists and maps are unbounded, so that most rules can be afforded.
func (g generator) shape(depth int) *shape {
	of := pick(g, "object", "object", "map", "array", "string", "string", "integer", "number", "boolean", "date", "date-time", "duration", "byte", "intOrString", "embedded", "preserve")
	if depth == 0 && slices.Contains([]string{"object", "map", "array", "embedded"}, of) {
		of = pick(g, "string", "integer", "boolean")
	}
	s := &shape{of: of, schema: map[string]any{}}
	some := func(keyword string, v any) {
		if !g.one(8) {
			s.schema[keyword] = v
		}
	}
	switch of {
	case "object", "embedded":
		s.schema["type"], s.fields = "object", map[string]*shape{}
		properties := map[string]any{}
		for range 1 + g.IntN(4) {
			name := pick(g, fieldNames...)
			s.fields[name] = g.shape(depth - 1)
			properties[name] = s.fields[name].schema
		}
		if of == "embedded" {
			s.schema["x-kubernetes-embedded-resource"] = true
		}
		s.schema["properties"] = properties
		if g.one(4) {
			s.schema["x-kubernetes-preserve-unknown-fields"] = true
		}
		if g.one(8) {
			s.schema["x-kubernetes-map-type"] = pick(g, "atomic", "granular")
		}
		if g.one(4) {
			for name := range s.fields {
				s.schema["required"] = []any{name}
			}
		}
	case "map":
		s.elem = g.shape(depth - 1)
		s.schema["type"], s.schema["additionalProperties"] = "object", s.elem.schema
		some("maxProperties", 4)
	case "array":
		g.arrayShape(s, depth, some)
	case "preserve":
		s.schema["x-kubernetes-preserve-unknown-fields"] = true
		if g.one(2) {
			s.schema["type"] = "object"
		}
	case "intOrString":
		s.schema["x-kubernetes-int-or-string"] = true
	case "date", "date-time", "duration", "byte":
		s.schema["type"], s.schema["format"] = "string", of
	case "string":
		s.schema["type"] = of
		some("maxLength", 20)
		if g.one(8) {
			s.schema["enum"] = []any{"a", "b", "abc", ""}
		}
	default:
		s.schema["type"] = of
	}
	if g.one(10) {
		s.schema["nullable"] = true
	}
	return s
}

func (g generator) arrayShape(s *shape, depth int, some func(string, any)) {
	s.elem = g.shape(depth - 1)
	s.schema["type"], s.schema["items"] = "array", s.elem.schema
	some("maxItems", 4)
	switch {
	case g.one(3):
		s.elem = &shape{of: "object", fields: map[string]*shape{"a": {of: "string", schema: map[string]any{"type": "string", "maxLength": 5}}, "b": g.shape(depth - 1)}}
		s.elem.schema = map[string]any{"type": "object", "required": []any{"a"}, "properties": map[string]any{"a": s.elem.fields["a"].schema, "b": s.elem.fields["b"].schema}}
		s.schema["items"], s.schema["x-kubernetes-list-type"], s.schema["x-kubernetes-list-map-keys"] = s.elem.schema, "map", []any{"a"}
	case slices.Contains([]string{"string", "integer", "boolean"}, s.elem.of) && g.one(2) && s.elem.schema["nullable"] == nil:
		s.schema["x-kubernetes-list-type"] = "set"
	}
}

// place is an expression of a type.
type celPlace struct {
	text string
	of   *shape
}

// places returns expressions for values in s.
func (g generator) places(text string, s *shape, depth int) []celPlace {
	all := []celPlace{{text, s}}
	if depth == 0 {
		return all
	}
	for name, part := range s.fields {
		escaped := strings.NewReplacer("__", "__underscores__", ".", "__dot__", "-", "__dash__", "/", "__slash__").Replace(name)
		if name == "in" || name == "namespace" && g.one(2) {
			escaped = "__" + name + "__"
		}
		all = append(all, g.places(text+"."+escaped, part, depth-1)...)
	}
	if s.elem != nil && s.of == "array" {
		all = append(all, g.places(text+"[0]", s.elem, depth-1)...)
	}
	if s.elem != nil && s.of == "map" {
		all = append(all, g.places(text+"['x']", s.elem, depth-1)...)
		all = append(all, g.places(text+".x", s.elem, depth-1)...)
	}
	if s.of == "embedded" {
		all = append(all, celPlace{text + ".metadata.name", &shape{of: "string"}}, celPlace{text + ".kind", &shape{of: "string"}})
	}
	return all
}

var predicates = map[string][]string{
	"string":      {"X == 'a'", "X.size() < 4", "X.startsWith('a')", "X.matches('^[a-c]*$')", "X + 'b' != 'ab'", "X in ['a', 'b']", "X.contains('b')", "X.find('[0-9]+') == ''", "X.lowerAscii() == X", "X.split('.').size() > 1", "X.replace('a', 'bb').size() > 2", "isQuantity(X)", "isIP(X)", "url(X).getHost() == ''", "X.charAt(0) == 'a'", "format.dns1123Label().validate(X).hasValue()", "isSemver(X)", "X.indexOf('b') >= 0", "X.substring(1) == ''", "ip(X).family() == 4"},
	"integer":     {"X > 1", "X / 0 == 1", "X % 2 == 0", "X == 2.0", "X < 3 || X > 5", "X + 9223372036854775807 > 0", "string(X) == '1'", "lists.range(X).size() == X", "[X, 2].max() == X"},
	"number":      {"X > 1.5", "X == 2", "int(X) == 2", "X / 0.0 > 1.0"},
	"boolean":     {"X", "!X", "X || false", "X ? true : false"},
	"date":        {"X > timestamp('2020-01-01T00:00:00Z')", "X.getFullYear() == 2020", "X == X"},
	"date-time":   {"X < timestamp('2021-01-01T00:00:00Z')", "X - X == duration('0s')"},
	"duration":    {"X > duration('1s')", "X.getSeconds() == 5"},
	"byte":        {"X == b'a'", "X.size() < 4"},
	"intOrString": {"X == 1", "type(X) == string ? X == 'a' : X < 5", "X.startsWith('a')", "X > 1"},
	"array":       {"X.size() < 3", "X.all(e, e == e)", "X.exists(e, e == X[0])", "X == X + X", "X + X == X", "X[0] in X", "X.isSorted()", "X.map(e, e).size() > 1", "X.filter(e, e != X[0]).size() == 0", "X.exists_one(e, e == X[0])", "X[7] == X[0]", "X.all(e, X.all(f, e == f))", "(X + X).size() > 2", "X.sum() > 3", "X.max() == X[0]", "X.join() == 'ab'", "sets.contains(X, X)", "X.distinct().size() == X.size()", "X.all(i, e, i < 2)", "X.indexOf(X[0]) == 0"},
	"map":         {"X.size() < 3", "X.all(k, k.size() < 4)", "'x' in X", "X.exists(k, X[k] == X['x'])", "has(X.x)", "X == X", "X.all(k, v, v == v)", "X.map(k, k).size() > 1"},
	"object":      {"X == X", "has(X.a)", "has(X.c__dash__d)", "has(X.b) && X.b == X.b", "X.size() > 1", "has(X.unknown)", "X.?a.hasValue()", "X.?a.orValue(X.a) == X.a", "!has(X.a) || X.a == X.a", "X.a == X.b"},
	"embedded":    {"X.metadata.name == 'n'", "has(X.metadata)", "X.kind == 'K'", "has(X.metadata.generateName)", "X.metadata.labels == {}"},
	"preserve":    {"X == X", "has(X.a)", "true"},
}

// rule returns a rule for values of s.
func (g generator) rule(s *shape) map[string]any {
	places := g.places("self", s, 3)
	text := func() string {
		p := places[g.IntN(len(places))]
		of := p.of.of
		if g.one(20) {
			of = pick(g, "string", "integer", "array")
		}
		out := strings.ReplaceAll(pick(g, predicates[of]...), "X", p.text)
		if g.one(4) {
			old := strings.Replace(p.text, "self", "oldSelf", 1)
			out = pick(g, p.text+" == "+old, p.text+" != "+old, strings.ReplaceAll(out, p.text, old), "oldSelf == self")
		}
		return out
	}
	rule := text()
	if g.one(3) {
		rule = pick(g, rule+" && "+text(), rule+" || "+text(), "!("+rule+")", rule+" ? "+text()+" : "+text())
	}
	out := map[string]any{"rule": rule}
	if g.one(4) {
		out["message"] = pick(g, "it is wrong", " spaces ", "")
	}
	if g.one(4) {
		out["messageExpression"] = pick(g, "'got ' + string(self.size())", "'constant'", "string(self)", "''", "'a\\nb'", "self", "'x' + self.a", "self.a", "'%s'.format([self])")
	}
	if g.one(6) {
		out["reason"] = pick(g, "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate")
	}
	if g.one(6) {
		out["fieldPath"] = pick(g, ".a", ".c-d", "['c-d']", ".a.b", ".x", "['x']", ".metadata.name", "a", ".", ".b[")
	}
	if g.one(6) {
		out["optionalOldSelf"] = g.one(2)
		if out["optionalOldSelf"] == true {
			out["rule"] = pick(g, "!oldSelf.hasValue() || oldSelf.value() == self", "oldSelf.orValue(self) == self", "oldSelf.optMap(o, o == self).orValue(false)", rule)
		}
	}
	return out
}

// addRules adds rules to s and below.
func (g generator) addRules(s *shape) {
	if g.one(3) {
		var all []any
		for range 1 + g.IntN(2) {
			all = append(all, g.rule(s))
		}
		s.schema["x-kubernetes-validations"] = all
	}
	for _, part := range s.fields {
		g.addRules(part)
	}
	if s.elem != nil {
		g.addRules(s.elem)
	}
}

// valueOf returns a value of s.
func (g generator) valueOf(s *shape) any {
	if s.schema["nullable"] == true && g.one(3) {
		return nil
	}
	switch s.of {
	case "object", "embedded":
		fields := map[string]any{}
		for name, part := range s.fields {
			if !g.one(4) || s.schema["required"] != nil {
				fields[name] = g.valueOf(part)
			}
		}
		if s.of == "embedded" {
			fields["apiVersion"], fields["kind"], fields["metadata"] = "v1", pick(g, "K", "L"), map[string]any{"name": pick(g, "n", "m"), "labels": map[string]any{"a": "b"}}
		}
		if s.schema["x-kubernetes-preserve-unknown-fields"] == true && g.one(2) {
			fields["unknown"] = g.value("string", 0)
		}
		return fields
	case "map":
		fields := map[string]any{}
		for range g.IntN(3) {
			fields[pick(g, "x", "y", "z.z")] = g.valueOf(s.elem)
		}
		return fields
	case "array":
		items := []any{}
		seen := map[string]bool{}
		for range g.IntN(4) {
			item := g.valueOf(s.elem)
			key := encode(item)
			if s.schema["x-kubernetes-list-type"] == "map" {
				if m, ok := item.(map[string]any); ok {
					key = fmt.Sprint(m["a"])
				}
			}
			if !seen[key] {
				items = append(items, item)
			}
			seen[key] = true
		}
		return items
	case "string":
		return pick(g, "a", "b", "abc", "", "1.2.3", "1.2.3.4", "ä")
	case "integer":
		return pick[any](g, int64(0), int64(1), int64(2), int64(7))
	case "number":
		return pick[any](g, 1.0, 2.5, int64(2))
	case "boolean":
		return g.one(2)
	case "date":
		return pick(g, "2020-01-01", "2021-02-03")
	case "date-time":
		return pick(g, "2020-01-01T00:00:00Z", "2022-01-01T00:00:00.5Z")
	case "duration":
		return pick(g, "5s", "1h", "0")
	case "byte":
		return pick(g, "YQ==", "")
	case "intOrString":
		return pick[any](g, int64(1), "a", "5%")
	}
	if s.schema["type"] == "object" {
		return map[string]any{"a": g.value("string", 0)}
	}
	return g.value(pick(g, "string", "integer", "array"), 1)
}

var (
	typeNames = regexp.MustCompile(`selfType(\d+|@)`)
	atSigns   = regexp.MustCompile(`(?m)^ \| *\.*\^$`)
)

// plain removes from errors what is random: names of types, and the space up to a column.
func plain(errs field.ErrorList) []string {
	all := texts(errs)
	for i := range all {
		all[i] = typeNames.ReplaceAllString(all[i], "selfType")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// warned collects warnings.
type warned struct{ all []string }

func (w *warned) AddWarning(_, text string) { w.all = append(w.all, text) }

// checkBoth compares what is wrong with the rules of a schema, and reports whether it is accepted.
func checkBoth(t *testing.T, text []byte, compiler *rules.Compiler) (*apiextensions.JSONSchemaProps, *schema.Structural, bool) {
	t.Helper()
	ours := &apiextensions.JSONSchemaProps{}
	var v1 upstreamv1.JSONSchemaProps
	for _, into := range []any{ours, &v1} {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	var internal upstream.JSONSchemaProps
	if err := upstreamv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &internal, nil); err != nil {
		t.Fatal(err)
	}
	theirs, err := schema.NewStructural(&internal)
	if err != nil || len(schema.ValidateStructural(nil, theirs)) > 0 {
		t.Fatalf("%s: NewStructural: %v, ValidateStructural: %v, want no errors", text, err, schema.ValidateStructural(nil, theirs))
	}
	celErrors, ok := theirRuleErrors(&internal)
	if !ok {
		return nil, nil, false // found before rules are compiled
	}
	path := field.NewPath("spec", "validation", "openAPIV3Schema")
	got, want := plain(compiler.Check(t.Context(), path, ours, nil)), plain(celErrors)
	// Of rules that cost the same, Kubernetes names those that it comes upon first, and it goes
	// through properties in an order of chance: ours must be one of its answers.
	for range 1000 {
		if slices.Equal(got, want) || !slices.ContainsFunc(want, isShareOfCost) {
			break
		}
		again, _ := theirRuleErrors(&internal)
		want = plain(again)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s:\nours   %q\ntheirs %q", text, got, want)
	}
	return ours, theirs, len(celErrors) == 0
}

func isShareOfCost(message string) bool {
	return strings.Contains(message, "contributed to estimated rule cost total")
}

// theirRuleErrors returns what Kubernetes finds wrong with the rules of a schema. It reports false
// if the schema is wrong without them.
func theirRuleErrors(s *upstream.JSONSchemaProps) (celErrors field.ErrorList, ok bool) {
	for _, err := range theirCheck(s) {
		if strings.HasSuffix(err.Field, ".fieldPath") || strings.HasSuffix(err.Field, "].message") || !strings.Contains(err.Field, "x-kubernetes-validations") && !strings.Contains(err.Detail, "cost") {
			return nil, false
		}
		celErrors = append(celErrors, err)
	}
	return celErrors, true
}

// theirCheck validates a definition with the schema and returns what is wrong with its schema.
func theirCheck(s *upstream.JSONSchemaProps) field.ErrorList {
	d := &upstream.CustomResourceDefinition{Spec: upstream.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: upstream.ClusterScoped,
		Names:      upstream.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
		Versions:   []upstream.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
		Validation: &upstream.CustomResourceValidation{OpenAPIV3Schema: s}, Conversion: &upstream.CustomResourceConversion{Strategy: upstream.NoneConverter},
		PreserveUnknownFields: new(bool),
	}, Status: upstream.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}}}
	d.Name = "things.example.com"
	return upstreamvalidation.ValidateCustomResourceDefinition(context.Background(), d)
}

// TestRules compares random schemas with rules, and random objects and changes of them.
func TestRules(t *testing.T) {
	compiler, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	var accepted, valid, violated int
	for i := range *ruled {
		at := first + uint64(i)
		g := generator{rand.New(rand.NewPCG(at, 1))}
		made := &shape{of: "object", fields: map[string]*shape{}, schema: map[string]any{"type": "object"}}
		properties := map[string]any{}
		for range 1 + g.IntN(3) {
			name := pick(g, fieldNames...)
			made.fields[name] = g.shape(2)
			properties[name] = made.fields[name].schema
		}
		made.schema["properties"] = properties
		g.addRules(made)
		text, err := json.Marshal(made.schema)
		if err != nil {
			t.Fatal(err)
		}
		if !t.Run(fmt.Sprint("seed=", at), func(t *testing.T) {
			source, theirs, ok := checkBoth(t, text, compiler)
			if !ok {
				return
			}
			accepted++
			ours, err := structural.Compile(t.Context(), source)
			if err != nil {
				t.Fatal(err)
			}
			mine, their := compiler.Compile(ours.Shared()), schemacel.NewValidator(theirs, true, celconfig.PerCallLimit)
			var old map[string]any
			for range 6 {
				obj, _ := g.valueOf(made).(map[string]any)
				obj["apiVersion"], obj["kind"], obj["metadata"] = "example.com/v1", "Thing", map[string]any{"name": "n"}
				if old != nil && g.one(3) {
					for name := range made.fields { // one field is as it was
						if v, ok := old[name]; ok {
							obj[name] = v
						}
						break
					}
				}
				var gotWarnings []string
				got := mine.Validate(t.Context(), obj, old, func(text string) { gotWarnings = append(gotWarnings, text) })
				var recorder warned
				ctx := warning.WithWarningRecorder(t.Context(), &recorder)
				var options []schemacel.Option
				var was any
				if old != nil {
					was = old
					options = append(options, schemacel.WithRatcheting(common.NewCorrelatedObject(obj, old, &model.Structural{Structural: theirs})))
				}
				want, _ := their.Validate(ctx, nil, theirs, obj, was, celconfig.RuntimeCELCostBudget, options...)
				slices.Sort(gotWarnings)
				slices.Sort(recorder.all)
				if a, b := plain(got), plain(want); !slices.Equal(a, b) || !slices.Equal(slices.Compact(gotWarnings), slices.Compact(recorder.all)) {
					t.Fatalf("%s\n%s of %s\nours   %q %q\ntheirs %q %q", text, encode(obj), encode(old), a, gotWarnings, b, recorder.all)
				}
				if len(want) == 0 {
					valid++
				} else {
					violated++
				}
				old = obj
			}
		}) {
			return
		}
	}
	t.Logf("first seed %d: %d schemas of %d accepted, %d objects valid, %d not", first, accepted, *ruled, valid, violated)
	if accepted < *ruled/10 || valid < *ruled/10 || violated < *ruled/10 {
		t.Error("too few are compared")
	}
}
