package kube

import (
	"maps"
	"strconv"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func replicationControllers() apiserver.Resource {
	main := strategy[*corev1.ReplicationController]{
		complete: completeReplicationController,
		create: func(rc *corev1.ReplicationController) {
			rc.Status = corev1.ReplicationControllerStatus{}
			rc.Generation = 1
		},
		update: func(rc, old *corev1.ReplicationController) {
			old.Status.DeepCopyInto(&rc.Status)
			rc.Generation = nextGeneration(old.Generation, differ(&rc.Spec, &old.Spec))
		},
		validate:       validateReplicationController,
		validateUpdate: func(rc, _ *corev1.ReplicationController) field.ErrorList { return validateReplicationController(rc) },
	}
	r := apiserver.Resource{
		Version:    "v1",
		Kind:       "ReplicationController",
		Plural:     "replicationcontrollers",
		ShortNames: []string{"rc"},
		Categories: []string{"all"},
		Namespaced: true,
		New:        func() runtime.Object { return &corev1.ReplicationController{} },
		NewList:    func() runtime.Object { return &corev1.ReplicationControllerList{} },
		Strategy:   main.erase(),
		Columns:    replicationControllerColumns(),
		Fields: selectable[*corev1.ReplicationController]{
			"status.replicas": func(rc *corev1.ReplicationController) string { return strconv.Itoa(int(rc.Status.Replicas)) },
		}.erase(),
		Subresources: []apiserver.Subresource{
			status(strategy[*corev1.ReplicationController]{
				update: func(rc, old *corev1.ReplicationController) { old.Spec.DeepCopyInto(&rc.Spec) },
				validateUpdate: func(rc, _ *corev1.ReplicationController) field.ErrorList {
					return validateReplicationControllerStatus(rc)
				},
			}),
			scale(main, "replicationcontrollers", func(rc *corev1.ReplicationController) scaled {
				return scaled{rc, &rc.Spec.Replicas, rc.Status.Replicas, &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}}
			}),
		},
	}
	// core/v1 keeps to what it did before there was a garbage collector.
	r.Strategy.GarbageCollection = metav1.DeletePropagationOrphan
	return r
}

func completeReplicationController(rc *corev1.ReplicationController) {
	setIfNil(&rc.Spec.Replicas, 1)
	t := rc.Spec.Template
	if t == nil {
		return
	}
	defaultPodSpec(&t.Spec)
	if len(rc.Spec.Selector) == 0 && t.Labels != nil {
		rc.Spec.Selector = maps.Clone(t.Labels)
	}
	if len(rc.Labels) == 0 && t.Labels != nil {
		rc.Labels = maps.Clone(t.Labels)
	}
}

func validateReplicationController(rc *corev1.ReplicationController) field.ErrorList {
	var ps problems
	p, spec := field.NewPath("spec"), &rc.Spec
	ps.notNegative(p.Child("minReadySeconds"), int64(spec.MinReadySeconds))
	ps.present(len(spec.Selector) > 0, p.Child("selector"), "")
	ps.notNegative(p.Child("replicas"), int64(deref(spec.Replicas)))
	at := p.Child("template")
	if spec.Template == nil {
		ps.add(field.Required(at, ""))
		return ps.list
	}
	checkSelects(&ps, at, labels.SelectorFromSet(spec.Selector), spec.Template)
	checkTemplate(&ps, at, spec.Template)
	oneOf(&ps, at.Child("spec", "restartPolicy"), spec.Template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	ps.allowed(spec.Template.Spec.ActiveDeadlineSeconds == nil,
		at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicationController is not Supported")
	return ps.list
}

func validateReplicationControllerStatus(rc *corev1.ReplicationController) field.ErrorList {
	var ps problems
	p, s := field.NewPath("status"), &rc.Status
	checkCounts(&ps, p, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, count{"fullyLabeledReplicas", s.FullyLabeledReplicas})
	ps.notNegative(p.Child("observedGeneration"), s.ObservedGeneration)
	return ps.list
}

func replicationControllerColumns() []apiserver.Column {
	spec, status := corev1.ReplicationControllerSpec{}.SwaggerDoc(), corev1.ReplicationControllerStatus{}.SwaggerDoc()
	type rc = corev1.ReplicationController
	columns := []apiserver.Column{
		number("Desired", spec["replicas"], func(rc *rc) int64 { return int64(deref(rc.Spec.Replicas)) }),
		number("Current", status["replicas"], func(rc *rc) int64 { return int64(rc.Status.Replicas) }),
		number("Ready", status["readyReplicas"], func(rc *rc) int64 { return int64(rc.Status.ReadyReplicas) }),
		age[*rc](),
	}
	return append(columns, templateColumns(spec["selector"],
		func(rc *rc) *corev1.PodTemplateSpec {
			if rc.Spec.Template == nil {
				return &corev1.PodTemplateSpec{}
			}
			return rc.Spec.Template
		},
		func(rc *rc) string { return labels.FormatLabels(rc.Spec.Selector) })...)
}
