package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/planekit/planekit/localcache"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// object is the interface of both kinds.
type object[T any] interface {
	metav1.Object
	DeepCopy() T
}

// resource is one of the two kinds with everything that maintaining it takes.
type resource[T object[T]] struct {
	name   string
	cache  localcache.ListSubscriber[T]
	client Client[T]
	// wanted are the bootstrap objects by name, mandatory the names of some.
	wanted    map[string]T
	mandatory map[string]bool
	// sameSpec reports whether have needs no update, setSpec copies the spec.
	sameSpec func(want, have T) bool
	setSpec  func(into, from T)
}

func newResource[T object[T]](name string, cache localcache.ListSubscriber[T], client Client[T], mandatory, suggested []T) *resource[T] {
	r := &resource[T]{name: name, cache: cache, client: client, wanted: map[string]T{}, mandatory: map[string]bool{}}
	for _, o := range mandatory {
		r.wanted[o.GetName()], r.mandatory[o.GetName()] = o, true
	}
	for _, o := range suggested {
		r.wanted[o.GetName()] = o
	}
	return r
}

func sameLevel(want, have *flowcontrolv1.PriorityLevelConfiguration) bool {
	if want.Name != flowcontrol.ExemptName {
		return equality.Semantic.DeepEqual(&want.Spec, &have.Spec)
	}
	// The shares and the lendable part of the exempt level are the user's.
	spec := have.Spec
	spec.Exempt = want.Spec.Exempt
	return have.Spec.Exempt != nil && equality.Semantic.DeepEqual(&want.Spec, &spec)
}

func setLevel(into, from *flowcontrolv1.PriorityLevelConfiguration) {
	from.Spec.DeepCopyInto(&into.Spec)
}

func sameSchema(want, have *flowcontrolv1.FlowSchema) bool {
	return equality.Semantic.DeepEqual(&want.Spec, &have.Spec)
}

func setSchema(into, from *flowcontrolv1.FlowSchema) { from.Spec.DeepCopyInto(&into.Spec) }

// keep creates the bootstrap objects that are missing and restores the others. If it
// is urgent, it only creates mandatory ones.
func (r *resource[T]) keep(ctx context.Context, urgent bool) error {
	have := map[string]T{}
	for o := range r.cache.All() {
		have[o.GetName()] = o
	}
	var failed []error
	for name, want := range r.wanted {
		var err error
		switch current, ok := have[name]; {
		case urgent && !r.mandatory[name]:
		case !ok:
			if _, err = r.client.Create(ctx, want.DeepCopy()); apierrors.IsAlreadyExists(err) {
				err = nil // another server was first, or the cache is behind
			}
		case !urgent:
			if revised, ok := r.revise(current, want); ok {
				if _, err = r.client.Update(ctx, revised); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
					err = nil // the next pass looks again
				}
			}
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s/%s: %w", r.name, name, err))
		}
	}
	return errors.Join(failed...)
}

// revise returns what current should be, or false if it may stay as it is.
func (r *resource[T]) revise(current, want T) (T, bool) {
	restore := r.mandatory[want.GetName()]
	marked, isMarked := marked(current)
	switch {
	case restore:
	case isMarked:
		restore = marked
	default:
		restore = current.GetGeneration() == 1
	}
	differs := restore && !r.sameSpec(want, current)
	if !differs && isMarked && marked == restore {
		return current, false
	}
	out := current.DeepCopy()
	if differs {
		r.setSpec(out, want)
	}
	if isMarked && marked == restore {
		return out, true
	}
	annotations := maps.Clone(current.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[flowcontrolv1.AutoUpdateAnnotationKey] = strconv.FormatBool(restore)
	out.SetAnnotations(annotations)
	return out, true
}

// marked returns the value of the annotation, and whether there is a valid one.
func marked(o metav1.Object) (value, ok bool) {
	value, err := strconv.ParseBool(o.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	return value, err == nil
}

// prune deletes the objects that were bootstrap objects and are so no longer.
func (r *resource[T]) prune(ctx context.Context) error {
	var failed []error
	for o := range r.cache.All() {
		if _, wanted := r.wanted[o.GetName()]; wanted || o.GetDeletionTimestamp() != nil {
			continue
		}
		if restored, _ := marked(o); !restored {
			continue
		}
		// A user may take the annotation away at the same time.
		uid, version := o.GetUID(), o.GetResourceVersion()
		err := r.client.Delete(ctx, "", o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = append(failed, fmt.Errorf("%s/%s: %w", r.name, o.GetName(), err))
		}
	}
	return errors.Join(failed...)
}
