// Package patched replaces the object of a request by a patched one, within the limits that the patches of clients have.
package patched

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/bodycost"
	"github.com/planekit/planekit/internal/jsonpatch"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/json"
)

// Limits on the work of a patch, the same as for patches of clients: a few copies within an object
// could create any size.
const (
	MaxOperations = 10000
	MaxObject     = 3 << 20
	MaxDepth      = 256
	freeCost      = 2 << 20
	costFactor    = 4
	freeValues    = 40_000
	valueSize     = 50
)

// Decoder decodes patched objects. The zero Decoder is ready to use. It is safe for concurrent use.
type Decoder struct{ costs bodycost.Types }

// Apply returns document with the changes of a JSON patch. The result may have MaxObject bytes, or as many as document.
func Apply(ctx context.Context, operations jsonpatch.Patch, document []byte) ([]byte, error) {
	data, err := operations.Apply(ctx, document, jsonpatch.Limits{Depth: MaxDepth, Copied: MaxObject})
	if errors.Is(err, jsonpatch.ErrTooMuchCopied) {
		return nil, tooLarge()
	}
	if err != nil {
		return nil, err
	}
	return data, Fits(data, len(document))
}

// Fits returns an error if data, which was of a size before, is too large for an object.
func Fits(data []byte, before int) error {
	if len(data) > max(MaxObject, before) {
		return tooLarge()
	}
	return nil
}

func tooLarge() error {
	return fmt.Errorf("the patch makes the object larger than %d bytes", MaxObject)
}

// Bound returns an error if an object of the type of that in r takes too much memory to decode from data.
func (d *Decoder) Bound(ctx context.Context, data []byte, r *admission.Request) error {
	limits := bodycost.Limits{Depth: MaxDepth, Bytes: freeCost + costFactor*len(data), Values: freeValues + len(data)/valueSize}
	_, err := d.costs.JSON(ctx, data, reflect.TypeOf(r.Object), limits)
	return err
}

// UndecodableError is the error for data that is not an object of the type. It wraps the reason.
type UndecodableError struct{ Err error }

// Error returns the reason after a prefix.
func (e *UndecodableError) Error() string { return "decode the patched object: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *UndecodableError) Unwrap() error { return e.Err }

// Strict returns an error if data has fields that the type of the object in r does not have.
func Strict(data []byte, r *admission.Request) error {
	if _, any := r.Object.(runtime.Unstructured); any {
		return nil
	}
	problems, err := json.UnmarshalStrict(data, reflect.New(reflect.TypeOf(r.Object).Elem()).Interface(), json.DisallowUnknownFields)
	if err != nil {
		return &UndecodableError{err}
	}
	if len(problems) > 0 {
		return &UndecodableError{runtime.NewStrictDecodingError(problems)}
	}
	return nil
}

// Decode returns data as an object of the type of that in r. The fields that the server sets stay as
// they are, but those of a new object, which the server sets afterwards. Unknown fields are dropped. A custom object gets
// the defaults of its version within the budget of ctx; the server drops its unknown fields once all plugins have seen it.
func Decode(ctx context.Context, data []byte, r *admission.Request) (any, error) {
	t := reflect.TypeOf(r.Object)
	if t.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("a %v cannot be patched", t)
	}
	object := reflect.New(t.Elem()).Interface()
	if err := utiljson.Unmarshal(data, object); err != nil {
		return nil, &UndecodableError{err}
	}
	if o, ok := object.(interface {
		DefaultLike(ctx context.Context, other any) error
	}); ok {
		if err := o.DefaultLike(ctx, r.Object); err != nil {
			return nil, err
		}
	}
	if o, ok := object.(runtime.Object); ok {
		if got := o.GetObjectKind().GroupVersionKind(); got != Kind(r) {
			return nil, fmt.Errorf("the patch makes a %v of a %v", got, Kind(r))
		}
	}
	is, ok := object.(metav1.Object)
	was, also := r.Object.(metav1.Object)
	if ok && also && r.Operation != admission.Create {
		is.SetUID(was.GetUID())
		is.SetResourceVersion(was.GetResourceVersion())
		is.SetCreationTimestamp(was.GetCreationTimestamp())
		is.SetDeletionTimestamp(was.GetDeletionTimestamp())
		is.SetDeletionGracePeriodSeconds(was.GetDeletionGracePeriodSeconds())
	}
	return object, nil
}

// Kind returns the kind of r's object in its JSON form.
func Kind(r *admission.Request) schema.GroupVersionKind {
	if kind := r.Object.(runtime.Object).GetObjectKind().GroupVersionKind(); kind.Kind != "" {
		return kind
	}
	return schema.GroupVersionKind(r.Kind)
}
