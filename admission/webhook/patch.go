package webhook

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/bodycost"
	"github.com/planekit/planekit/internal/jsonpatch"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Limits on the work of a patch, the same as for patches of clients: a few copies within an object
// could create any size.
const (
	maxOperations = 10000
	maxObject     = 3 << 20
	maxDepth      = 256
	freeCost      = 2 << 20
	costFactor    = 4
	freeValues    = 40_000
	valueSize     = 50
)

// patched returns the request's object with the patch of h, as another object of the same type; nil
// if the patch is empty. An invalid patch is an error of the request, whatever h's failurePolicy. A
// patch that takes longer than ctx is a failure of h.
func (h *hook) patched(ctx context.Context, q *question, patch []byte) (any, error) {
	operations, count, err := jsonpatch.Decode(ctx, patch, maxOperations, maxDepth)
	if err != nil {
		return nil, &failure{h.name, fmt.Errorf("received undecodable patch in webhook response: %w", err)}
	}
	if count == 0 {
		return nil, nil
	}
	if q.r.Object == nil {
		return nil, apierrors.NewInternalError(fmt.Errorf(
			"admission webhook %q attempted to modify the object, which is not supported for this operation", h.name))
	}
	if count > maxOperations {
		return nil, apierrors.NewInternalError(fmt.Errorf("the patch has %d operations, more than %d", count, maxOperations))
	}
	data, err := operations.Apply(ctx, q.object, jsonpatch.Limits{Depth: maxDepth, Copied: maxObject})
	if errors.Is(err, jsonpatch.ErrTooMuchCopied) || len(data) > max(maxObject, len(q.object)) {
		err = fmt.Errorf("the patch makes the object larger than %d bytes", maxObject)
	}
	if err == nil {
		limits := bodycost.Limits{Depth: maxDepth, Bytes: freeCost + costFactor*len(data), Values: freeValues + len(data)/valueSize}
		_, err = h.costs.JSON(ctx, data, reflect.TypeOf(q.r.Object), limits)
	}
	switch {
	case ctx.Err() != nil:
		return nil, &failure{h.name, fmt.Errorf("apply the patch in webhook response: %w", ctx.Err())}
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	}
	object, err := decode(data, q.r)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("admission webhook %q: %w", h.name, err))
	}
	return object, nil
}

// decode returns data as an object of the type of r. The fields that the server sets stay as they
// are.
func decode(data []byte, r *admission.Request) (any, error) {
	t := reflect.TypeOf(r.Object)
	if t.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("a %v cannot be patched", t)
	}
	object := reflect.New(t.Elem()).Interface()
	if err := utiljson.Unmarshal(data, object); err != nil {
		return nil, fmt.Errorf("decode the patched object: %w", err)
	}
	if o, ok := object.(runtime.Object); ok {
		if got := o.GetObjectKind().GroupVersionKind(); got != kindOf(r) {
			return nil, fmt.Errorf("the patch makes a %v of a %v", got, kindOf(r))
		}
	}
	is, ok := object.(metav1.Object)
	was, also := r.Object.(metav1.Object)
	if !ok || !also {
		return object, nil
	}
	if is.GetNamespace() != was.GetNamespace() {
		return nil, fmt.Errorf("the patch moves the object from namespace %q to %q", was.GetNamespace(), is.GetNamespace())
	}
	is.SetUID(was.GetUID())
	is.SetResourceVersion(was.GetResourceVersion())
	is.SetCreationTimestamp(was.GetCreationTimestamp())
	is.SetDeletionTimestamp(was.GetDeletionTimestamp())
	is.SetDeletionGracePeriodSeconds(was.GetDeletionGracePeriodSeconds())
	is.SetManagedFields(was.GetManagedFields())
	return object, nil
}

// kindOf returns the kind of r's object in its JSON form.
func kindOf(r *admission.Request) schema.GroupVersionKind {
	if kind := r.Object.(runtime.Object).GetObjectKind().GroupVersionKind(); kind.Kind != "" {
		return kind
	}
	return schema.GroupVersionKind(r.Kind)
}
