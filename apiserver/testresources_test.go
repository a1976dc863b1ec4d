package apiserver_test

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resources are real types with strategies as small as they can be and still
// use every part of one.
func resources() []apiserver.Resource {
	return []apiserver.Resource{configMaps(), namespaces(), pods(), deployments()}
}

func configMaps() apiserver.Resource {
	return apiserver.Resource{
		Version: "v1", Kind: "ConfigMap", Plural: "configmaps", ShortNames: []string{"cm"}, Namespaced: true,
		New:     func() runtime.Object { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}
}

func namespaces() apiserver.Resource {
	return apiserver.Resource{
		Version: "v1", Kind: "Namespace", Plural: "namespaces",
		New:     func() runtime.Object { return &corev1.Namespace{} },
		NewList: func() runtime.Object { return &corev1.NamespaceList{} },
		Strategy: apiserver.Strategy{
			PrepareForCreate: func(_ context.Context, obj runtime.Object) {
				obj.(*corev1.Namespace).Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
			},
			PrepareForUpdate: func(_ context.Context, obj, old runtime.Object) {
				obj.(*corev1.Namespace).Spec = old.(*corev1.Namespace).Spec
			},
			Finalizing: func(obj runtime.Object) bool { return len(obj.(*corev1.Namespace).Spec.Finalizers) > 0 },
			PrepareForDelete: func(obj runtime.Object) {
				obj.(*corev1.Namespace).Status.Phase = corev1.NamespaceTerminating
			},
		},
		Subresources: []apiserver.Subresource{apiserver.Status{Name: "finalize", Verbs: []string{"update"}}},
	}
}

func pods() apiserver.Resource {
	return apiserver.Resource{
		Version: "v1", Kind: "Pod", Plural: "pods", ShortNames: []string{"po"}, Categories: []string{"all"}, Namespaced: true,
		New:     func() runtime.Object { return &corev1.Pod{} },
		NewList: func() runtime.Object { return &corev1.PodList{} },
		Fields: map[string]func(runtime.Object) string{
			"spec.nodeName": func(obj runtime.Object) string { return obj.(*corev1.Pod).Spec.NodeName },
		},
		Columns: []apiserver.Column{
			{Name: "Status", Type: "string", Value: func(obj runtime.Object) any { return string(obj.(*corev1.Pod).Status.Phase) }},
			{Name: "Node", Type: "string", Priority: 1, Value: func(obj runtime.Object) any { return obj.(*corev1.Pod).Spec.NodeName }},
		},
		Strategy: apiserver.Strategy{
			Grace: func(obj runtime.Object, o *metav1.DeleteOptions) int64 {
				if o.GracePeriodSeconds != nil {
					return *o.GracePeriodSeconds
				}
				return 30
			},
		},
		Subresources: []apiserver.Subresource{statusOfPod(), binding()},
	}
}

func statusOfPod() apiserver.Status {
	return apiserver.Status{
		Strategy: apiserver.Strategy{PrepareForUpdate: func(_ context.Context, obj, old runtime.Object) {
			obj.(*corev1.Pod).Spec = *old.(*corev1.Pod).Spec.DeepCopy()
		}},
	}
}

func binding() apiserver.View {
	return apiserver.View{
		Name: "binding", Verbs: []string{"create"}, Version: "v1", Kind: "Binding",
		New: func() runtime.Object { return &corev1.Binding{} },
		Into: func(parent, body runtime.Object) error {
			pod := parent.(*corev1.Pod)
			if pod.Spec.NodeName != "" {
				gr := schema.GroupResource{Resource: "pods"}
				return apierrors.NewConflict(gr, pod.Name, fmt.Errorf("pod is already assigned to node %q", pod.Spec.NodeName))
			}
			pod.Spec.NodeName = body.(*corev1.Binding).Target.Name
			return nil
		},
	}
}

func deployments() apiserver.Resource {
	return apiserver.Resource{
		Group: "apps", Version: "v1", Kind: "Deployment", Plural: "deployments", ShortNames: []string{"deploy"}, Namespaced: true,
		New:     func() runtime.Object { return &appsv1.Deployment{} },
		NewList: func() runtime.Object { return &appsv1.DeploymentList{} },
		Strategy: apiserver.Strategy{
			Default: func(obj runtime.Object) {
				if d := obj.(*appsv1.Deployment); d.Spec.Replicas == nil {
					d.Spec.Replicas = new(int32(1))
				}
			},
			PrepareForCreate: func(_ context.Context, obj runtime.Object) {
				obj.(*appsv1.Deployment).Generation = 1
				obj.(*appsv1.Deployment).Status = appsv1.DeploymentStatus{}
			},
			PrepareForUpdate: raiseGeneration,
			Validate:         func(_ context.Context, obj runtime.Object) field.ErrorList { return checkReplicas(obj) },
			ValidateUpdate:   func(_ context.Context, obj, _ runtime.Object) field.ErrorList { return checkReplicas(obj) },
		},
		Subresources: []apiserver.Subresource{scale()},
	}
}

func raiseGeneration(_ context.Context, obj, old runtime.Object) {
	d, was := obj.(*appsv1.Deployment), old.(*appsv1.Deployment)
	d.Status = was.Status
	if !apiequality.Semantic.DeepEqual(d.Spec, was.Spec) {
		d.Generation = was.Generation + 1
	}
}

func checkReplicas(obj runtime.Object) field.ErrorList {
	if n := *obj.(*appsv1.Deployment).Spec.Replicas; n < 0 {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), n, "must be greater than or equal to 0")}
	}
	return nil
}

func scale() apiserver.View {
	return apiserver.View{
		Name: "scale", Verbs: []string{"get", "update", "patch"}, Replicas: "spec.replicas",
		Group: "autoscaling", Version: "v1", Kind: "Scale",
		New:      func() runtime.Object { return &autoscalingv1.Scale{} },
		Strategy: apiserver.Strategy{PrepareForUpdate: raiseGeneration},
		From: func(parent runtime.Object) (runtime.Object, error) {
			d := parent.(*appsv1.Deployment)
			return &autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, UID: d.UID, ResourceVersion: d.ResourceVersion},
				Spec:       autoscalingv1.ScaleSpec{Replicas: *d.Spec.Replicas},
			}, nil
		},
		Into: func(parent, body runtime.Object) error {
			parent.(*appsv1.Deployment).Spec.Replicas = new(body.(*autoscalingv1.Scale).Spec.Replicas)
			return nil
		},
	}
}
