package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/planekit/planekit/admission/internal/patched"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/jsonpatch"
	mutationcel "github.com/planekit/planekit/internal/kubecel/mutation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	merge "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// changeSteps is the cost of a change, and byteSteps that for each byte of the object: it is encoded, changed, checked
// and decoded.
const changeSteps, byteSteps = 15_000, 5

// changed returns the object of f with a change; nil if the change is none.
func (c *changes) changed(ctx context.Context, f *form, e *evaluation, m *mutation) (any, error) {
	if m.change.err != nil {
		return nil, m.change.err
	}
	e.left = policyLimit
	result, wrong, end := e.evaluate(&m.change)
	if err := errors.Join(wrong, end); err != nil {
		return nil, err
	}
	var data []byte
	var err error
	before := f.vars["object"].(map[string]any)
	if m.patch {
		var operations []mutationcel.Operation
		if operations, err = mutationcel.Operations(result, patched.MaxObject); err == nil {
			data, err = patchOf(ctx, operations, before)
		}
	} else {
		var fields map[string]any
		if fields, err = mutationcel.Fields(result, patched.MaxObject); err == nil {
			data, err = c.applied(ctx, fields, before)
		}
	}
	if err != nil || data == nil {
		return nil, err
	}
	if err := budget.From(ctx).Work(changeSteps + byteSteps*len(data)); err != nil {
		return nil, err
	}
	if err := c.plugin.patches.Bound(ctx, data, f.r); err != nil {
		return nil, err
	}
	if m.patch { // the other has a schema
		err = patched.Strict(data, f.r)
	}
	var object any
	if err == nil {
		object, err = patched.Decode(ctx, data, f.r)
	}
	var undecodable *patched.UndecodableError
	switch {
	case errors.Is(err, budget.ErrExceeded):
		return nil, err
	case errors.As(err, &undecodable):
		return nil, apierrors.NewInternalError(undecodable.Err)
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	}
	return object, nil
}

// patchOf applies the operations of a JSON patch to an object; nil if a test in it fails.
func patchOf(ctx context.Context, operations []mutationcel.Operation, before map[string]any) ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		From  string `json:"from,omitempty"`
		Value *any   `json:"value,omitempty"`
	}
	if len(operations) > patched.MaxOperations {
		return nil, fmt.Errorf("JSON Patch: it has %d operations, more than %d", len(operations), patched.MaxOperations)
	}
	all := make([]operation, len(operations))
	for i, o := range operations {
		all[i] = operation{Op: o.Op, Path: o.Path, From: o.From}
		if o.HasValue {
			all[i].Value = &o.Value
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	patch, _, err := jsonpatch.Decode(ctx, text, patched.MaxOperations, patched.MaxDepth)
	if err != nil {
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	document, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	data, err := patched.Apply(ctx, patch, document)
	switch {
	case errors.Is(err, jsonpatch.ErrTest):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	return data, nil
}

// applied merges fields into the object before, by the schema of its kind.
func (c *changes) applied(ctx context.Context, fields, before map[string]any) ([]byte, error) {
	kind := schema.FromAPIVersionAndKind(text(before["apiVersion"]), text(before["kind"]))
	t, err := c.plugin.config.Schemas.Type(ctx, kind)
	if err != nil {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("Resource kind %s not found. "+
			"There can be a delay between when CustomResourceDefinitions are created and when they are available.", kind))
	}
	fields["apiVersion"], fields["kind"] = before["apiVersion"], before["kind"]
	merged, err := mergeFields(t, fields, before)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	data, err := json.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	return data, patched.Fits(data, 0)
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func mergeFields(t typed.ParseableType, fields, before map[string]any) (any, error) {
	change, err := t.FromUnstructured(fields)
	if err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if found := atomics(nil, change.Schema(), change.TypeRef(), change.AsValue()); len(found) > 0 {
		return nil, fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %v", strings.Join(found, ", "))
	}
	live, err := t.FromUnstructured(before, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	merged, err := live.Merge(change)
	if err != nil {
		return nil, fmt.Errorf("failed to merge patch: %w", err)
	}
	return merged.AsValue().Unstructured(), nil
}

// atomics returns the paths of the lists, maps and structs in v that can be replaced only as a whole. A policy must not
// set them: it would remove what it does not name.
func atomics(path fieldpath.Path, s *merge.Schema, of merge.TypeRef, v value.Value) (found []string) {
	a, ok := s.Resolve(of)
	if !ok {
		return nil
	}
	if v.IsMap() && a.Map != nil {
		if a.Map.ElementRelationship == merge.Atomic {
			found = append(found, path.String())
		}
		v.AsMap().Iterate(func(key string, field value.Value) bool {
			if f, ok := a.Map.FindField(key); ok {
				found = append(found, atomics(append(path, fieldpath.PathElement{FieldName: &key}), s, f.Type, field)...)
			}
			return true
		})
	}
	if v.IsList() && a.List != nil {
		if a.List.ElementRelationship == merge.Atomic {
			found = append(found, path.String())
		}
		for i, list := 0, v.AsList(); i < list.Length(); i++ {
			found = append(found, atomics(append(path, fieldpath.PathElement{Index: &i}), s, a.List.ElementType, list.At(i))...)
		}
	}
	return found
}
