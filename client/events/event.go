package events

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// reference returns a reference to the object that an event is about.
func reference(object runtime.Object) (corev1.ObjectReference, error) {
	if ref, ok := object.(*corev1.ObjectReference); ok {
		return *ref, nil
	}
	version, kind := object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if kind == "" {
		version, kind = kindOf(object)
	}
	if kind == "" {
		return corev1.ObjectReference{}, fmt.Errorf("the kind of a %T is not set", object)
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return corev1.ObjectReference{}, err
	}
	return corev1.ObjectReference{
		APIVersion: version, Kind: kind,
		Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(),
	}, nil
}

// kindOf returns the kind of the types that components create without filling in the kind.
func kindOf(object runtime.Object) (version, kind string) {
	switch object.(type) {
	case *corev1.Pod:
		return "v1", "Pod"
	case *corev1.Node:
		return "v1", "Node"
	case *corev1.Namespace:
		return "v1", "Namespace"
	case *appsv1.Deployment:
		return "apps/v1", "Deployment"
	case *appsv1.ReplicaSet:
		return "apps/v1", "ReplicaSet"
	case *batchv1.Job:
		return "batch/v1", "Job"
	}
	return "", ""
}

func newEvent(about corev1.ObjectReference, eventtype, reason, message string, now time.Time) *corev1.Event {
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // cluster-scoped objects have none
	}
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      nameOf(about.Name, now),
			Namespace: namespace,
		},
		InvolvedObject: about,
		Type:           eventtype, Reason: reason, Message: message,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
}

// nameOf returns the name of an event about an object. Not every object's name can be part of one:
// a ClusterRole's may contain colons, and some names are too long.
func nameOf(object string, now time.Time) string {
	name := timedName(object, now)
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return strings.ToLower(rand.Text())
	}
	return name
}

// timedName returns the usual name of an event: the object's name and the time.
func timedName(object string, at time.Time) string {
	return fmt.Sprintf("%s.%x", object, at.UnixNano())
}
