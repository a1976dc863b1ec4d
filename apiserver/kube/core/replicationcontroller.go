package core

import (
	"maps"
	"strconv"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ReplicationControllers returns the resource of the kind ReplicationController.
func ReplicationControllers() apiserver.Resource {
	main := define.Strategy[*corev1.ReplicationController]{
		Counted:        func(rc *corev1.ReplicationController) any { return &rc.Spec },
		Default:        completeReplicationController,
		Create:         func(rc *corev1.ReplicationController) { rc.Status = corev1.ReplicationControllerStatus{} },
		Update:         func(rc, old *corev1.ReplicationController) { old.Status.DeepCopyInto(&rc.Status) },
		Validate:       validateReplicationController,
		ValidateUpdate: func(rc, _ *corev1.ReplicationController) field.ErrorList { return validateReplicationController(rc) },
	}
	r := apiserver.For(kinds.ReplicationControllers, apiserver.Resource{
		Strategy: main.Erase(),
		Columns:  replicationControllerColumns(),
		Fields: define.Fields[*corev1.ReplicationController]{
			"status.replicas": func(rc *corev1.ReplicationController) string { return strconv.Itoa(int(rc.Status.Replicas)) },
		}.Erase(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*corev1.ReplicationController]{
				Update: func(rc, old *corev1.ReplicationController) { old.Spec.DeepCopyInto(&rc.Spec) },
				ValidateUpdate: func(rc, _ *corev1.ReplicationController) field.ErrorList {
					return validateReplicationControllerStatus(rc)
				},
			}),
			define.Scale(main, kinds.ReplicationControllers, func(rc *corev1.ReplicationController) define.Scaled {
				return define.Scaled{Meta: rc, Desired: &rc.Spec.Replicas, Current: rc.Status.Replicas, Selector: &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}}
			}),
		},
	})
	// core/v1 keeps to what it did before there was a garbage collector.
	r.Strategy.GarbageCollection = metav1.DeletePropagationOrphan
	return r
}

// maxCopiedLabels is the largest number of labels of a template that become the selector and the labels of the controller:
// each has an owner, so that a request would cost three times what its size explains. With more, a selector is required.
const maxCopiedLabels = 5000

func completeReplicationController(rc *corev1.ReplicationController) {
	optional.SetIfNil(&rc.Spec.Replicas, 1)
	t := rc.Spec.Template
	if t == nil {
		return
	}
	podspec.DefaultTemplate(t)
	if len(t.Labels) > maxCopiedLabels {
		return
	}
	if len(rc.Spec.Selector) == 0 && t.Labels != nil {
		rc.Spec.Selector = maps.Clone(t.Labels)
	}
	if len(rc.Labels) == 0 && t.Labels != nil {
		rc.Labels = maps.Clone(t.Labels)
	}
}

func validateReplicationController(rc *corev1.ReplicationController) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &rc.Spec
	ps.NotNegative(p.Child("minReadySeconds"), int64(spec.MinReadySeconds))
	ps.Present(len(spec.Selector) > 0, p.Child("selector"), "")
	ps.NotNegative(p.Child("replicas"), int64(optional.Deref(spec.Replicas)))
	at := p.Child("template")
	if spec.Template == nil {
		ps.Add(field.Required(at, ""))
		return ps.List
	}
	podspec.CheckSelects(&ps, at, labels.SelectorFromSet(spec.Selector), spec.Template)
	podspec.CheckTemplate(&ps, at, spec.Template)
	check.OneOf(&ps, at.Child("spec", "restartPolicy"), spec.Template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	ps.Allowed(spec.Template.Spec.ActiveDeadlineSeconds == nil,
		at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicationController is not Supported")
	return ps.List
}

func validateReplicationControllerStatus(rc *corev1.ReplicationController) field.ErrorList {
	var ps check.Problems
	p, s := field.NewPath("status"), &rc.Status
	check.Counts(&ps, p, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, check.Count{Path: "fullyLabeledReplicas", Value: s.FullyLabeledReplicas})
	ps.NotNegative(p.Child("observedGeneration"), s.ObservedGeneration)
	return ps.List
}

func replicationControllerColumns() []apiserver.Column {
	spec, status := corev1.ReplicationControllerSpec{}.SwaggerDoc(), corev1.ReplicationControllerStatus{}.SwaggerDoc()
	type rc = corev1.ReplicationController
	columns := []apiserver.Column{
		column.Number("Desired", spec["replicas"], func(rc *rc) int64 { return int64(optional.Deref(rc.Spec.Replicas)) }),
		column.Number("Current", status["replicas"], func(rc *rc) int64 { return int64(rc.Status.Replicas) }),
		column.Number("Ready", status["readyReplicas"], func(rc *rc) int64 { return int64(rc.Status.ReadyReplicas) }),
		column.Age[*rc](),
	}
	return append(columns, column.PodTemplate(spec["selector"],
		func(rc *rc) *corev1.PodTemplateSpec {
			if rc.Spec.Template == nil {
				return &corev1.PodTemplateSpec{}
			}
			return rc.Spec.Template
		},
		func(rc *rc) string { return labels.FormatLabels(rc.Spec.Selector) })...)
}
