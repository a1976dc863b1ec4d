package typed_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/typed"
	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
)

func Example() {
	schema, err := structural.Compile(context.Background(), &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
		"day-off": {Type: "string", Format: "date"},
	}})
	if err != nil {
		panic(err)
	}
	env, err := kubecel.NewEnv()
	if err != nil {
		panic(err)
	}
	self := typed.Of(schema, false)
	if env, err = self.Declare(env, "self", "oldSelf", false); err != nil {
		panic(err)
	}
	ast, err := kubecel.Compile(context.Background(), env, "self.day__dash__off.getDayOfWeek()")
	if err != nil {
		panic(err)
	}
	program, err := kubecel.Program(env, ast)
	if err != nil {
		panic(err)
	}
	day, _, err := program.Eval(map[string]any{"self": typed.Value(map[string]any{"day-off": "2026-11-28"}, schema)})
	fmt.Println(day, err)
	// Output: 6 <nil>
}

// TestEscape has the examples of Kubernetes' documentation, and what is no escape.
func TestEscape(t *testing.T) {
	for name, want := range map[string]string{
		"a": "a", "x-y": "x__dash__y", "a.b": "a__dot__b", "a/b": "a__slash__b", "namespace": "__namespace__", "redact__d": "redact__underscores__d",
		"___": "__underscores___", "string": "string", "_a": "_a", "": "", "1a": "", "a b": "", "ä": "", "a--": "a__dash____dash__",
	} {
		got, ok := typed.Escape(name)
		if got != want || ok != (want != "") {
			t.Errorf("%q is escaped as %q", name, got)
		}
		if back, ok := typed.Unescape(want); want != "" && (back != name || !ok) {
			t.Errorf("%q is unescaped as %q", want, back)
		}
	}
	for escaped, want := range map[string]string{"__nonsense__": "", "a__in__": "", "a__b_c__": "a__b_c__", "__in__": "in", "___dash__": "_-", "a__": "a__"} {
		if got, ok := typed.Unescape(escaped); got != want || ok != (want != "") {
			t.Errorf("%q is unescaped as %q", escaped, got)
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, name := range []string{"a", "x-y", "__", "a__dot__b", "in", "_-_", "a.b/c"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		escaped, ok := typed.Escape(name)
		if !ok {
			return
		}
		if back, ok := typed.Unescape(escaped); !ok || back != name {
			t.Errorf("%q is escaped as %q, and back %q", name, escaped, back)
		}
	})
}

// TestSums: lists with keys are sets, and other lists are concatenated without a copy.
func TestSums(t *testing.T) {
	list := func(of string, items ...any) traits.Lister {
		s := &apiextensions.JSONSchemaProps{Type: "array", XListType: &of, Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &apiextensions.JSONSchemaProps{Type: "string", Format: "date"}}}
		compiled, err := structural.Compile(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return typed.Value(items, compiled).(traits.Lister)
	}
	a, b := "2026-01-01", "2026-01-02"
	if sum := list("set", a, b).Add(list("set", b, a)).(traits.Lister); sum.Size() != types.Int(2) || sum.Equal(list("set", b, a)) != types.True {
		t.Error(sum.Value())
	}
	sum := list("atomic", a, b).Add(list("atomic", b)).(traits.Lister)
	if sum.Size() != types.Int(3) || sum.Get(types.Int(2)).Equal(list("atomic", b).Get(types.Int(0))) != types.True || sum.Contains(types.String("x")) == types.True {
		t.Error(sum.Value())
	}
	if same := list("atomic", a, b).Equal(list("atomic", b, a)); same != types.False {
		t.Error(same)
	}
}
