package apps

import (
	"strconv"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ReplicaSets returns the resource of the kind ReplicaSet.
func ReplicaSets() apiserver.Resource {
	main := define.Strategy[*appsv1.ReplicaSet]{
		Counted: func(rs *appsv1.ReplicaSet) any { return &rs.Spec },
		Default: func(rs *appsv1.ReplicaSet) {
			optional.SetIfNil(&rs.Spec.Replicas, 1)
			podspec.DefaultTemplate(&rs.Spec.Template)
		},
		Create:   func(rs *appsv1.ReplicaSet) { rs.Status = appsv1.ReplicaSetStatus{} },
		Update:   func(rs, old *appsv1.ReplicaSet) { old.Status.DeepCopyInto(&rs.Status) },
		Validate: validateReplicaSet,
		ValidateUpdate: func(rs, old *appsv1.ReplicaSet) field.ErrorList {
			ps := check.Problems{List: validateReplicaSet(rs)}
			ps.Immutable(field.NewPath("spec", "selector"), rs.Spec.Selector, old.Spec.Selector)
			return ps.List
		},
	}
	return apiserver.For(kinds.ReplicaSets, apiserver.Resource{
		Strategy: main.Erase(),
		Columns:  replicaSetColumns(),
		Fields: define.Fields[*appsv1.ReplicaSet]{
			"status.replicas": func(rs *appsv1.ReplicaSet) string { return strconv.Itoa(int(rs.Status.Replicas)) },
		}.Erase(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*appsv1.ReplicaSet]{
				Update:         func(rs, old *appsv1.ReplicaSet) { old.Spec.DeepCopyInto(&rs.Spec) },
				ValidateUpdate: func(rs, _ *appsv1.ReplicaSet) field.ErrorList { return validateReplicaSetStatus(rs) },
			}),
			define.Scale(main, kinds.ReplicaSets, func(rs *appsv1.ReplicaSet) define.Scaled {
				return define.Scaled{Meta: rs, Desired: &rs.Spec.Replicas, Current: rs.Status.Replicas, Selector: rs.Spec.Selector}
			}),
		},
	})
}

func validateReplicaSet(rs *appsv1.ReplicaSet) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("spec")
	ps.NotNegative(p.Child("replicas"), int64(optional.Deref(rs.Spec.Replicas)))
	ps.NotNegative(p.Child("minReadySeconds"), int64(rs.Spec.MinReadySeconds))
	checkReplicaTemplate(&ps, p, rs.Spec.Selector, &rs.Spec.Template)
	return ps.List
}

func validateReplicaSetStatus(rs *appsv1.ReplicaSet) field.ErrorList {
	var ps check.Problems
	p, s := field.NewPath("status"), &rs.Status
	check.Counts(&ps, p, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, check.Count{Path: "fullyLabeledReplicas", Value: s.FullyLabeledReplicas})
	ps.NotNegative(p.Child("observedGeneration"), s.ObservedGeneration)
	ps.NotNegative(p.Child("terminatingReplicas"), int64(optional.Deref(s.TerminatingReplicas)))
	return ps.List
}

func replicaSetColumns() []apiserver.Column {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	columns := []apiserver.Column{
		column.Number("Desired", spec["replicas"], func(rs *appsv1.ReplicaSet) int64 { return int64(optional.Deref(rs.Spec.Replicas)) }),
		column.Number("Current", status["replicas"], func(rs *appsv1.ReplicaSet) int64 { return int64(rs.Status.Replicas) }),
		column.Number("Ready", status["readyReplicas"], func(rs *appsv1.ReplicaSet) int64 { return int64(rs.Status.ReadyReplicas) }),
		column.Age[*appsv1.ReplicaSet](),
	}
	return append(columns, column.PodTemplate(spec["selector"],
		func(rs *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &rs.Spec.Template },
		func(rs *appsv1.ReplicaSet) string { return metav1.FormatLabelSelector(rs.Spec.Selector) })...)
}
