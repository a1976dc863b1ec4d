package define

import (
	"fmt"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/internal/invalid"
	"github.com/planekit/planekit/kinds/kind"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// scaleGVK is the kind of the subresource.
var scaleGVK = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// A Scaled has the parts of an object that its scale shows and changes.
type Scaled struct {
	Meta     metav1.Object
	Desired  **int32
	Current  int32
	Selector *metav1.LabelSelector
}

// Scale returns the subresource for objects of kind k, which have replicas. A write of it updates the object under
// the object's own strategy.
func Scale[T runtime.Object](s Strategy[T], k kind.Kind[T], view func(T) Scaled) apiserver.Subresource {
	return apiserver.View{
		Name:     "scale",
		Verbs:    []string{"get", "update", "patch"},
		Strategy: s.Erase(),
		Replicas: "spec.replicas",
		Group:    scaleGVK.Group,
		Version:  scaleGVK.Version,
		Kind:     scaleGVK.Kind,
		New:      func() runtime.Object { return &autoscalingv1.Scale{} },
		From: func(parent runtime.Object) (runtime.Object, error) {
			return showScale(view(parent.(T)))
		},
		Into: func(parent, body runtime.Object) error {
			return setScale(view(parent.(T)), body.(*autoscalingv1.Scale), schema.GroupResource{Group: k.Group, Resource: k.Plural + "/scale"})
		},
	}
}

func showScale(v Scaled) (*autoscalingv1.Scale, error) {
	selector, err := metav1.LabelSelectorAsSelector(v.Selector)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name:              v.Meta.GetName(),
			Namespace:         v.Meta.GetNamespace(),
			UID:               v.Meta.GetUID(),
			ResourceVersion:   v.Meta.GetResourceVersion(),
			CreationTimestamp: v.Meta.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: optional.Deref(*v.Desired)},
		Status: autoscalingv1.ScaleStatus{Replicas: v.Current, Selector: selector.String()},
	}, nil
}

func setScale(v Scaled, s *autoscalingv1.Scale, resource schema.GroupResource) error {
	var ps check.Problems
	ps.All(validation.ValidateObjectMeta(&s.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata")))
	ps.All(apiserver.QualifiedFinalizers(s.Finalizers, nil))
	ps.NotNegative(field.NewPath("spec", "replicas"), int64(s.Spec.Replicas))
	if len(ps.List) > 0 {
		return invalid.Object(scaleGVK.GroupKind(), v.Meta.GetName(), ps.List)
	}
	if err := sameUID(v.Meta, s); err != nil {
		return apierrors.NewConflict(resource, v.Meta.GetName(), err)
	}
	*v.Desired = new(s.Spec.Replicas)
	return nil
}

// Precondition returns an error unless have has the UID and the resource version of want, if want
// has any.
func Precondition(have, want metav1.Object) error {
	if err := sameUID(have, want); err != nil {
		return err
	}
	if rv := want.GetResourceVersion(); rv != "" && rv != have.GetResourceVersion() {
		return fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", rv, have.GetResourceVersion())
	}
	return nil
}

func sameUID(have, want metav1.Object) error {
	if uid := want.GetUID(); uid != "" && uid != have.GetUID() {
		// Clients know the text in this form.
		return fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, have.GetUID())
	}
	return nil
}
