package convergence

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// things are objects of a kind that controllers learn of while they run.
func things(r *Room) dynamic.ResourceInterface {
	return r.side.dynamic.Resource(schema.GroupVersionResource{Group: "convergence.example.com", Version: "v1", Resource: "things"}).Namespace(r.Namespace)
}

// createThing defines things and creates one.
func createThing(ctx context.Context, r *Room) error {
	_, err := r.side.dynamic.Resource(definitions).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things.convergence.example.com"},
		"spec": map[string]any{
			"group": "convergence.example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "things", "kind": "Thing"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	thing := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "convergence.example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "one"},
	}}
	for {
		_, err := things(r).Create(ctx, thing, metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		if err := pause(ctx, settled/10); err != nil { // until the server serves them
			return fmt.Errorf("things are not served: %w", err)
		}
	}
}

// noThing returns an error if there still is the thing.
func noThing(ctx context.Context, r *Room) error {
	_, err := things(r).Get(ctx, "one", metav1.GetOptions{})
	if err == nil {
		return fmt.Errorf("the thing of the namespace %s is still there", r.Namespace)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
