package mergeschema_test

import (
	"fmt"

	"github.com/planekit/planekit/internal/mergeschema"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func Example() {
	kinds, err := mergeschema.Kinds([]byte(`{"Lamp": {
		"type": "object",
		"properties": {"bulbs": {"type": "array", "items": {"type": "object", "properties": {"socket": {"type": "string"}, "watts": {"type": "integer"}}},
			"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["socket"]}},
		"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Lamp"}]
	}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	lamp := kinds[schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Lamp"}]
	stored, err := lamp.FromYAML(`{"bulbs": [{"socket": "a", "watts": 5}, {"socket": "b", "watts": 5}]}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	change, err := lamp.FromYAML(`{"bulbs": [{"socket": "b", "watts": 9}]}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	merged, err := stored.Merge(change)
	fmt.Println(merged.AsValue().Unstructured(), err)
	// Output:
	// map[bulbs:[map[socket:a watts:5] map[socket:b watts:9]]] <nil>
}
