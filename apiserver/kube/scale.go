package kube

import (
	"github.com/planekit/planekit/apiserver"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// scaleGVK is the type through which everything with replicas is scaled.
var scaleGVK = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// scaled is what a scale shows of an object and what it changes.
type scaled struct {
	meta     metav1.Object
	desired  **int32
	current  int32
	selector *metav1.LabelSelector
}

// scale is the subresource of objects in group apps that have replicas. A scaling
// is an update of the object under its own strategy.
func scale[T runtime.Object](s strategy[T], plural string, view func(T) scaled) apiserver.Subresource {
	return apiserver.View{
		Name:     "scale",
		Verbs:    []string{"get", "update", "patch"},
		Strategy: s.erase(),
		Replicas: "spec.replicas",
		Group:    scaleGVK.Group,
		Version:  scaleGVK.Version,
		Kind:     scaleGVK.Kind,
		New:      func() runtime.Object { return &autoscalingv1.Scale{} },
		From: func(parent runtime.Object) (runtime.Object, error) {
			return showScale(view(parent.(T)))
		},
		Into: func(parent, body runtime.Object) error {
			return setScale(view(parent.(T)), body.(*autoscalingv1.Scale), plural)
		},
	}
}

func showScale(v scaled) (*autoscalingv1.Scale, error) {
	selector, err := metav1.LabelSelectorAsSelector(v.selector)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name:              v.meta.GetName(),
			Namespace:         v.meta.GetNamespace(),
			UID:               v.meta.GetUID(),
			ResourceVersion:   v.meta.GetResourceVersion(),
			CreationTimestamp: v.meta.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: deref(*v.desired)},
		Status: autoscalingv1.ScaleStatus{Replicas: v.current, Selector: selector.String()},
	}, nil
}

func setScale(v scaled, s *autoscalingv1.Scale, plural string) error {
	var ps problems
	ps.notNegative(field.NewPath("spec", "replicas"), int64(s.Spec.Replicas))
	if len(ps.list) > 0 {
		return apierrors.NewInvalid(scaleGVK.GroupKind(), v.meta.GetName(), ps.list)
	}
	if err := precondition(v.meta, s); err != nil {
		return apierrors.NewConflict(schema.GroupResource{Group: "apps", Resource: plural + "/scale"}, v.meta.GetName(), err)
	}
	*v.desired = new(s.Spec.Replicas)
	return nil
}
