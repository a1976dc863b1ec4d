package kube

import (
	"strconv"

	"github.com/planekit/planekit/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func replicaSets() apiserver.Resource {
	main := strategy[*appsv1.ReplicaSet]{
		complete: func(rs *appsv1.ReplicaSet) {
			setIfNil(&rs.Spec.Replicas, 1)
			defaultPodSpec(&rs.Spec.Template.Spec)
		},
		create: func(rs *appsv1.ReplicaSet) {
			rs.Status = appsv1.ReplicaSetStatus{}
			rs.Generation = 1
		},
		update: func(rs, old *appsv1.ReplicaSet) {
			old.Status.DeepCopyInto(&rs.Status)
			rs.Generation = nextGeneration(old.Generation, differ(&rs.Spec, &old.Spec))
		},
		validate: validateReplicaSet,
		validateUpdate: func(rs, old *appsv1.ReplicaSet) field.ErrorList {
			ps := problems{list: validateReplicaSet(rs)}
			ps.immutable(field.NewPath("spec", "selector"), rs.Spec.Selector, old.Spec.Selector)
			return ps.list
		},
	}
	return apiserver.Resource{
		Group:      appsv1.GroupName,
		Version:    "v1",
		Kind:       "ReplicaSet",
		Plural:     "replicasets",
		ShortNames: []string{"rs"},
		Categories: []string{"all"},
		Namespaced: true,
		New:        func() runtime.Object { return &appsv1.ReplicaSet{} },
		NewList:    func() runtime.Object { return &appsv1.ReplicaSetList{} },
		Strategy:   main.erase(),
		Columns:    replicaSetColumns(),
		Fields: selectable[*appsv1.ReplicaSet]{
			"status.replicas": func(rs *appsv1.ReplicaSet) string { return strconv.Itoa(int(rs.Status.Replicas)) },
		}.erase(),
		Subresources: []apiserver.Subresource{
			status(strategy[*appsv1.ReplicaSet]{
				update:         func(rs, old *appsv1.ReplicaSet) { old.Spec.DeepCopyInto(&rs.Spec) },
				validateUpdate: func(rs, _ *appsv1.ReplicaSet) field.ErrorList { return validateReplicaSetStatus(rs) },
			}),
			scale(main, "replicasets", func(rs *appsv1.ReplicaSet) scaled {
				return scaled{rs, &rs.Spec.Replicas, rs.Status.Replicas, rs.Spec.Selector}
			}),
		},
	}
}

func validateReplicaSet(rs *appsv1.ReplicaSet) field.ErrorList {
	var ps problems
	p := field.NewPath("spec")
	ps.notNegative(p.Child("replicas"), int64(deref(rs.Spec.Replicas)))
	ps.notNegative(p.Child("minReadySeconds"), int64(rs.Spec.MinReadySeconds))
	checkReplicaTemplate(&ps, p, rs.Spec.Selector, &rs.Spec.Template)
	return ps.list
}

func validateReplicaSetStatus(rs *appsv1.ReplicaSet) field.ErrorList {
	var ps problems
	p, s := field.NewPath("status"), &rs.Status
	checkCounts(&ps, p, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, count{"fullyLabeledReplicas", s.FullyLabeledReplicas})
	ps.notNegative(p.Child("observedGeneration"), s.ObservedGeneration)
	ps.notNegative(p.Child("terminatingReplicas"), int64(deref(s.TerminatingReplicas)))
	return ps.list
}

func replicaSetColumns() []apiserver.Column {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	columns := []apiserver.Column{
		number("Desired", spec["replicas"], func(rs *appsv1.ReplicaSet) int64 { return int64(deref(rs.Spec.Replicas)) }),
		number("Current", status["replicas"], func(rs *appsv1.ReplicaSet) int64 { return int64(rs.Status.Replicas) }),
		number("Ready", status["readyReplicas"], func(rs *appsv1.ReplicaSet) int64 { return int64(rs.Status.ReadyReplicas) }),
		age[*appsv1.ReplicaSet](),
	}
	return append(columns, templateColumns(spec["selector"],
		func(rs *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &rs.Spec.Template },
		func(rs *appsv1.ReplicaSet) string { return metav1.FormatLabelSelector(rs.Spec.Selector) })...)
}
