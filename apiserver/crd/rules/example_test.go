package rules_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/planekit/planekit/apiserver/crd/rules"
	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A rule compares two fields, and another one forbids a change.
func Example() {
	compiler, err := rules.New()
	if err != nil {
		panic(err)
	}
	var source apiextensions.JSONSchemaProps
	if err := json.Unmarshal([]byte(`{"type": "object", "properties": {"spec": {
		"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}, "class": {"type": "string"}},
		"x-kubernetes-validations": [
			{"rule": "self.min <= self.max", "messageExpression": "self.max < 0 ? 'max is negative' : 'max is too small'", "fieldPath": ".max"},
			{"rule": "self.class == oldSelf.class", "message": "class is immutable"}]}}}`), &source); err != nil {
		panic(err)
	}
	fmt.Println(compiler.Check(context.Background(), field.NewPath("schema"), &source, nil))

	schema, err := structural.Compile(context.Background(), &source)
	if err != nil {
		panic(err)
	}
	lamp := func(min, max int64, class string) map[string]any {
		return map[string]any{"spec": map[string]any{"min": min, "max": max, "class": class}}
	}
	for _, err := range compiler.Compile(schema).Validate(context.Background(), lamp(5, 3, "a"), lamp(1, 2, "b"), nil) {
		fmt.Println(err)
	}
	// Output:
	// []
	// spec.max: Invalid value: max is too small
	// spec: Invalid value: class is immutable
}
