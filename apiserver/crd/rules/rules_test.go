package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/crd"
	"github.com/planekit/planekit/apiserver/crd/rules"
	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func newCompiler(t testing.TB) *rules.Compiler {
	t.Helper()
	c, err := rules.New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t testing.TB, text string) *apiextensions.JSONSchemaProps {
	t.Helper()
	s := &apiextensions.JSONSchemaProps{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		t.Fatalf("parse(%s): %v", text, err)
	}
	return s
}

func compile(t testing.TB, c *rules.Compiler, text string) crd.Rules {
	t.Helper()
	s, err := structural.Compile(t.Context(), parse(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return c.Compile(s.Shared())
}

// schema returns a schema of a resource with fields and a rule.
func schema(properties, rule string, more ...string) string {
	text, err := json.Marshal(rule)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"x-kubernetes-validations":[{"rule":%s%s}]}`, properties, text, strings.Join(more, ""))
}

// TestCheck has the texts of kube-apiserver for rules that it refuses.
func TestCheck(t *testing.T) {
	c := newCompiler(t)
	for name, test := range map[string]struct{ schema, want string }{
		"syntax":  {schema("", "self ="), `x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self =","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:6: Syntax error`},
		"type":    {schema(`"a":{"type":"string"}`, "self.a"), "cel expression must evaluate to a bool"},
		"field":   {schema(`"a":{"type":"string"}`, "self.b == 'x'"), "undefined field 'b'"},
		"cost":    {schema(`"a":{"type":"array","items":{"type":"string"}}`, "self.a.all(x, self.a.all(y, x == y))"), "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"},
		"factor":  {schema(`"a":{"type":"array","maxItems":30000,"items":{"type":"string","maxLength":1000}}`, "self.a.all(x, x.contains('abc'))"), "estimated rule cost exceeds budget by factor of 1.2"},
		"message": {schema(`"a":{"type":"string"}`, "true", `,"messageExpression":"self.a.size()"`), "messageExpression must evaluate to a string"},
		"old":     {`{"type":"object","properties":{"a":{"type":"array","maxItems":2,"items":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= oldSelf"}]}}}}`, "oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[a]"},
		"option":  {schema("", "true", `,"optionalOldSelf":true`), "x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"},
		"hidden":  {`{"type":"object","properties":{"a":{"x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-validations":[{"rule":"true"}]}}}`, "Internal error: internal error: failed to construct type information"},
	} {
		errs := c.Check(t.Context(), field.NewPath("schema"), parse(t, test.schema), nil)
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), test.want) {
			t.Errorf("%s: %v\nwant %q", name, errs, test.want)
		}
	}
	total := `{"type":"object","properties":{`
	for i := range 30 {
		total += fmt.Sprintf(`"f%d":{"type":"array","maxItems":9000,"items":{"type":"string","maxLength":200},"x-kubernetes-validations":[{"rule":"self.all(x, x.matches('^[a-z]{1,200}[0-9]{1,300}[a-z]{1,200}$'))"}]},`, i)
	}
	errs := c.Check(t.Context(), field.NewPath("schema"), parse(t, strings.TrimSuffix(total, ",")+"}}"), nil)
	if len(errs) == 0 || !strings.HasPrefix(errs[len(errs)-1].Detail, "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget") {
		t.Error(errs)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if errs := c.Check(stopped, field.NewPath("schema"), parse(t, schema("", "true")), nil); len(errs) != 1 || errs[0].Type != field.ErrorTypeInternal {
		t.Error(errs)
	}
}

// TestUnchangedCost: a rule that is too expensive stays if its schema does.
func TestUnchangedCost(t *testing.T) {
	s := parse(t, schema(`"a":{"type":"array","items":{"type":"string"}}`, "self.a.all(x, x.contains('abc'))"))
	c := newCompiler(t)
	if errs := c.Check(t.Context(), field.NewPath("schema"), s, nil); len(errs) == 0 {
		t.Fatal("it is not expensive")
	}
	for _, err := range c.Check(t.Context(), field.NewPath("schema"), s, s) {
		if strings.HasPrefix(err.Detail, "estimated rule cost exceeds") {
			t.Error(err)
		}
	}
}

// TestTransitions: what oldSelf is, and what is only a warning.
func TestTransitions(t *testing.T) {
	c := newCompiler(t)
	obj := func(a any) map[string]any { return map[string]any{"a": a} }
	for name, test := range map[string]struct {
		field, rule, more string
		now, old          map[string]any
		want, warning     string
	}{
		"created":   {`"type":"integer"`, "self == oldSelf", "", obj(int64(1)), nil, "", ""},
		"same":      {`"type":"integer"`, "self == oldSelf", "", obj(int64(1)), obj(int64(1)), "", ""},
		"changed":   {`"type":"integer"`, "self == oldSelf", "", obj(int64(1)), obj(int64(2)), "failed rule: self == oldSelf", ""},
		"added":     {`"type":"integer"`, "self == oldSelf", "", obj(int64(1)), map[string]any{}, "", ""},
		"optional":  {`"type":"integer"`, "oldSelf.hasValue()", `,"optionalOldSelf":true`, obj(int64(1)), map[string]any{}, "failed rule: oldSelf.hasValue()", ""},
		"value":     {`"type":"integer"`, "oldSelf.orValue(0) < self", `,"optionalOldSelf":true`, obj(int64(1)), obj(int64(1)), "failed rule", ""},
		"unchanged": {`"type":"integer"`, "self > 5", "", obj(int64(1)), obj(int64(1)), "", "a: Invalid value: 1: failed rule: self > 5"},
		"worse":     {`"type":"integer"`, "self > 5", "", obj(int64(1)), obj(int64(2)), "failed rule: self > 5", ""},
		"null":      {`"type":"integer","nullable":true`, "self > 5", "", obj(nil), nil, "", ""},
		"reason":    {`"type":"integer"`, "self > 5", `,"reason":"FieldValueForbidden","message":" no "`, obj(int64(1)), nil, "a: Forbidden: no", ""},
		"duplicate": {`"type":"integer"`, "self > 5", `,"reason":"FieldValueDuplicate"`, obj(int64(1)), nil, "a: Duplicate value: 1", ""},
		"reserved":  {`"type":"object","properties":{"namespace":{"type":"string"},"x-y":{"type":"string"}}`, "self.namespace == 'n' && self.__namespace__ == 'n' && self.x__dash__y == 'z'", "", obj(map[string]any{"namespace": "n", "x-y": "a"}), nil, "failed rule", ""},
		"embedded":  {`"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true`, "self.metadata.name == 'n' && self.kind == 'K'", "", obj(map[string]any{"kind": "K", "apiVersion": "v1", "metadata": map[string]any{"name": "m"}}), nil, "failed rule", ""},
		"missing":   {`"type":"object","properties":{"b":{"type":"string"}}`, "self.b == 'x'", "", obj(map[string]any{}), nil, "no such key: b evaluating rule: self.b == 'x'", ""},
		"overload":  {`"x-kubernetes-int-or-string":true`, "self.startsWith('a')", "", obj(int64(1)), nil, "call arguments did not match a supported operator, function or macro signature", ""},
	} {
		text := fmt.Sprintf(`{"type":"object","properties":{"a":{%s,"x-kubernetes-validations":[{"rule":%q%s}]}}}`, test.field, test.rule, test.more)
		if errs := c.Check(t.Context(), field.NewPath("schema"), parse(t, text), nil); len(errs) > 0 {
			t.Errorf("%s: Check = %v, want no errors", name, errs)
			continue
		}
		warning := ""
		errs := compile(t, c, text).Validate(t.Context(), test.now, test.old, func(text string) { warning += text })
		got := ""
		if len(errs) > 0 {
			got = errs[0].Error()
		}
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) || warning != test.warning {
			t.Errorf("%s: %q and the warning %q, want %q and %q", name, got, warning, test.want, test.warning)
		}
	}
}

// TestListsOfMaps: an item's old value is that with the same keys.
func TestListsOfMaps(t *testing.T) {
	list := compile(t, newCompiler(t), `{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","l"],"items":{
		"type":"object","required":["k","l"],"properties":{"k":{"type":"string"},"l":{"type":"integer"},"v":{"type":"integer"}},
		"x-kubernetes-validations":[{"rule":"self.v >= oldSelf.v"}]}}}}`)
	item := func(k string, l, v int64) any { return map[string]any{"k": k, "l": l, "v": v} }
	items := func(all ...any) map[string]any { return map[string]any{"a": all} }
	errs := list.Validate(t.Context(), items(item("b", 1, 5), item("a", 1, 1), item("a", 2, 0)), items(item("a", 1, 2), item("b", 1, 5)), nil)
	if len(errs) != 1 || errs[0].Field != "a[1]" {
		t.Error(errs)
	}
}

// wide returns an object with a list of n items of a kind.
func wide(n int, item any) map[string]any {
	items := make([]any, n)
	for i := range items {
		items[i] = item
	}
	return map[string]any{"a": items, "b": "x", "s": strings.Repeat("a", 1<<20)}
}

// TestBombs: rules that would take hours or all memory end, and fail. The schemas could be accepted if they
// had limits that the objects, stored before, do not keep.
func TestBombs(t *testing.T) {
	c := newCompiler(t)
	text := func(items string) string {
		return `"a":{"type":"array","items":{"type":"` + items + `"}},"s":{"type":"string"},"b":{"type":"string"}`
	}
	big := wide(10_000, "x")
	for _, rule := range []string{
		"lists.range(9223372036854775807).size() > 0",
		"[1,2,3].all(x, lists.range(900000).size() > 0)",
		"sets.contains(self.a, self.a)",
		"sets.equivalent(self.a, self.a)",
		"sets.intersects(self.a, ['y'] + self.a)",
		"self.a.distinct().size() > 0",
		"self.s.replace('', self.s).size() > 0",
		"self.a.map(x, self.s).join().size() > 0",
		"self.a.map(x, self.a).flatten().size() > 0",
		"self.s.indexOf(self.s + 'b') > 0",
		"self.s.matches('(a*)*b' + self.s)",
	} {
		began := time.Now()
		errs := compile(t, c, schema(text("string"), rule)).Validate(t.Context(), big, nil, nil)
		if t.Logf("%v: %s", time.Since(began), rule); len(errs) == 0 {
			t.Errorf("%s: it is allowed", rule)
		}
	}
}

// TestBudget: the evaluations for one object share a budget.
func TestBudget(t *testing.T) {
	// The cost of a pattern grows with its length, and this one takes no time: no text begins as it does.
	text := `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","x-kubernetes-validations":[{"rule":"!self.matches('^` + strings.Repeat("x", 60) + `$')"}]}}}}`
	obj := map[string]any{"a": []any{}}
	for range 3000 {
		obj["a"] = append(obj["a"].([]any), strings.Repeat("a b c ", 1000))
	}
	errs := compile(t, newCompiler(t), text).Validate(t.Context(), obj, nil, nil)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "validation failed due to running out of cost budget, no further validation rules will be run") {
		t.Errorf("Validate(3,000 texts) = %v, want one error about the cost budget", errs)
	}
}

// TestTimeLimit: an evaluation ends with its context.
func TestTimeLimit(t *testing.T) {
	rule := compile(t, newCompiler(t), schema(`"a":{"type":"array","items":{"type":"string"}}`, "self.a.all(x, self.a.size() > 0)"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := rule.Validate(ctx, wide(5_000, "x"), nil, nil)
	if len(errs) != 1 || !strings.Contains(errs[0].Detail, "no further validation rules will be run due to the time that was spent") {
		t.Error(errs)
	}
}

// TestShared: many goroutines evaluate the rules of one schema, whose lists with keys have lazy indexes.
func TestShared(t *testing.T) {
	rule := compile(t, newCompiler(t), schema(`"a":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"b":{"type":"string"},"s":{"type":"string"}`, "self.a == oldSelf.a && (self.a + ['y']).size() > 1"))
	obj := map[string]any{"a": []any{"x", "y"}}
	old := map[string]any{"a": []any{"y", "x"}}
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 50 {
				if errs := rule.Validate(context.Background(), obj, old, nil); len(errs) > 0 {
					t.Error(errs)
					return
				}
			}
		})
	}
	work.Wait()
}

// TestNumbers: NaN and infinity, which JSON does not have, do no harm.
func TestNumbers(t *testing.T) {
	rule := compile(t, newCompiler(t), schema(`"n":{"type":"number"}`, "self.n == self.n && self.n < 5.0"))
	for _, n := range []float64{math.NaN(), math.Inf(1), math.MaxFloat64} {
		if errs := rule.Validate(t.Context(), map[string]any{"n": n}, nil, nil); len(errs) == 0 {
			t.Error(n, errors.New("is valid"))
		}
	}
}
