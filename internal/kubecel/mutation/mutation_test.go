package mutation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/mutation"
)

// evaluate returns the value of an expression in which object is a map.
func evaluate(text string) (ref.Val, error) {
	env, err := kubecel.NewEnv(cel.Variable("object", cel.DynType))
	if err != nil {
		return nil, err
	}
	if env, err = mutation.Extend(env); err != nil {
		return nil, err
	}
	ast, err := kubecel.Compile(context.Background(), env, text)
	if err != nil {
		return nil, err
	}
	program, err := kubecel.Program(env, ast)
	if err != nil {
		return nil, err
	}
	v, _, err := program.Eval(map[string]any{"object": map[string]any{"spec": map[string]any{"replicas": int64(2), "names": []any{"a", "b"}}}})
	return v, err
}

// read returns what an expression makes as JSON.
func read(text string) (string, error) {
	v, err := evaluate(text)
	if err != nil {
		return "", err
	}
	var result any
	if strings.HasPrefix(text, "[") {
		result, err = mutation.Operations(v, 10_000)
	} else {
		result, err = mutation.Fields(v, 10_000)
	}
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(result)
	return string(data), err
}

func Example() {
	fmt.Println(read(`Object{spec: Object.spec{replicas: object.spec.replicas + 1}}`))
	fmt.Println(read(`[JSONPatch{op: "remove", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b~c")}]`))
	// Output:
	// {"spec":{"replicas":3}} <nil>
	// [{"Op":"remove","Path":"/metadata/labels/a~1b~0c","From":"","Value":null,"HasValue":false}] <nil>
}

func TestValues(t *testing.T) {
	for text, want := range map[string]string{
		`Object{}`: `{}`,
		`Object{spec: Object.spec{?a: optional.none(), ?b: optional.of(1)}}`:                                                       `{"spec":{"b":1}}`,
		`Object{spec: Object.spec{list: [Object.spec.list{name: "x"}]}}`:                                                           `{"spec":{"list":[{"name":"x"}]}}`,
		`Object{spec: Object.spec{names: object.spec.names + ["c"]}}`:                                                              `{"spec":{"names":["a","b","c"]}}`,
		`Object{metadata: Object.metadata{labels: {"a": "b"}}}`:                                                                    `{"metadata":{"labels":{"a":"b"}}}`,
		`Object{spec: object.spec}`:                                                                                                `{"spec":{"names":["a","b"],"replicas":2}}`,
		`Object{a: null, b: 1.5, c: true, d: b"x", e: timestamp("2020-01-01T00:00:00Z"), f: duration("1s"), g: 3u, h: [[1], [2]]}`: `{"a":null,"b":1.5,"c":true,"d":"eA==","e":"2020-01-01T00:00:00Z","f":"1s","g":3,"h":[[1],[2]]}`,
		`[JSONPatch{op: "add", path: "/x", value: Object.spec{a: 1}}]`:                                                             `[{"Op":"add","Path":"/x","From":"","Value":{"a":1},"HasValue":true}]`,
		`[JSONPatch{op: "copy", from: "/y", path: "/x"}].filter(p, true)`:                                                          `[{"Op":"copy","Path":"/x","From":"/y","Value":null,"HasValue":false}]`,
		`Object{spec: Object.spec{} == Object.spec{} ? Object.spec{a: 1} : Object.spec{a: 2}}`:                                     `{"spec":{"a":1}}`,
	} {
		if got, err := read(text); err != nil || got != want {
			t.Errorf("read(%s) = %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestWrong(t *testing.T) {
	for text, want := range map[string]string{
		`Object{spec: Object.status{}}`:                                   `type mismatch: unexpected type name "Object.status", expected "Object.spec", which matches field name path from root Object type`,
		`Object{spec: Object.spec{list: [Object.spec{}]}}`:                `unexpected type name "Object.spec", expected "Object.spec.list"`,
		`Object.spec{}.filter(x, true)`:                                   "compilation failed",
		`JSONPatch{path: 5}`:                                              "compilation failed",
		`JSONPatch{path: dyn(5)}`:                                         "unexpected type int64 for JSONPatchType 'path' field",
		`JSONPatch{paths: "a"}`:                                           "undefined field 'paths'",
		`[JSONPatch{path: "/x", value: Object.spec{a: Object.spec.b{}}}]`: `expected "Object.spec.a"`,
		`object.spec`:                                                     "unsupported return type",
		`["a"]`:                                                           "got element of string",
		`Object{a: {1: 2}}`:                                               "not string",
		`Object{a: type(1)}`:                                              "cannot be in an object",
		`Objects{}`:                                                       "undeclared reference",
		`jsonpatch.escapeKey(5)`:                                          "no matching overload",
		`Object{a: Object.a}`:                                             "undefined type",
	} {
		if got, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("read(%s) = %s, %v, want an error with %q", text, got, err, want)
		}
	}
}

// TestTooLarge: lists that contain one another many times are large only when they are read.
func TestTooLarge(t *testing.T) {
	text := `[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]`
	for range 9 {
		text = `[` + text + `].map(x, [x, x, x, x, x, x, x, x, x, x])[0]`
	}
	v, err := evaluate(`Object{a: ` + text + `}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mutation.Fields(v, 1<<20); !errors.Is(err, mutation.ErrTooLarge) {
		t.Errorf("Fields with at most %d bytes = %v, want ErrTooLarge", 1<<20, err)
	}
}
