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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DaemonSets returns the resource of the kind DaemonSet.
func DaemonSets() apiserver.Resource {
	return apiserver.For(kinds.DaemonSets, apiserver.Resource{
		Strategy: define.Strategy[*appsv1.DaemonSet]{
			Default: completeDaemonSet,
			Create: func(ds *appsv1.DaemonSet) {
				ds.Status = appsv1.DaemonSetStatus{}
				ds.Generation = 1
				setTemplateGeneration(ds, max(templateGeneration(ds), 1))
			},
			Update:         updateDaemonSet,
			Validate:       validateDaemonSet,
			ValidateUpdate: validateDaemonSetUpdate,
		}.Erase(),
		Columns: daemonSetColumns(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*appsv1.DaemonSet]{
				Update:         func(ds, old *appsv1.DaemonSet) { old.Spec.DeepCopyInto(&ds.Spec) },
				ValidateUpdate: validateDaemonSetStatus,
			}),
		},
	})
}

func completeDaemonSet(ds *appsv1.DaemonSet) {
	s := &ds.Spec.UpdateStrategy
	optional.SetIfEmpty(&s.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if s.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		optional.SetIfNil(&s.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		optional.SetIfNil(&s.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		optional.SetIfNil(&s.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	optional.SetIfNil(&ds.Spec.RevisionHistoryLimit, 10)
	podspec.DefaultTemplate(&ds.Spec.Template)
}

// updateDaemonSet counts the changes of the template in an annotation. It replaced a field, and old
// controllers label their pods with it.
func updateDaemonSet(ds, old *appsv1.DaemonSet) {
	old.Status.DeepCopyInto(&ds.Status)
	n := templateGeneration(old)
	if define.Differ(&ds.Spec.Template, &old.Spec.Template) {
		n++
	}
	if n > 0 {
		setTemplateGeneration(ds, n)
	}
	ds.Generation = define.NextGeneration(old.Generation, define.Differ(&ds.Spec, &old.Spec))
}

func templateGeneration(ds *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(ds.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func setTemplateGeneration(ds *appsv1.DaemonSet, n int64) {
	metav1.SetMetaDataAnnotation(&ds.ObjectMeta, appsv1.DeprecatedTemplateGeneration, strconv.FormatInt(n, 10))
}

func daemonSetColumns() []apiserver.Column {
	doc := appsv1.DaemonSetStatus{}.SwaggerDoc()
	type ds = appsv1.DaemonSet
	columns := []apiserver.Column{
		column.Number("Desired", doc["desiredNumberScheduled"], func(ds *ds) int64 { return int64(ds.Status.DesiredNumberScheduled) }),
		column.Number("Current", doc["currentNumberScheduled"], func(ds *ds) int64 { return int64(ds.Status.CurrentNumberScheduled) }),
		column.Number("Ready", doc["numberReady"], func(ds *ds) int64 { return int64(ds.Status.NumberReady) }),
		column.Number("Up-to-date", doc["updatedNumberScheduled"], func(ds *ds) int64 { return int64(ds.Status.UpdatedNumberScheduled) }),
		column.Number("Available", doc["numberAvailable"], func(ds *ds) int64 { return int64(ds.Status.NumberAvailable) }),
		column.Text("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"], func(ds *ds) string {
			return labels.FormatLabels(ds.Spec.Template.Spec.NodeSelector)
		}),
		column.Age[*ds](),
	}
	return append(columns, column.PodTemplate(appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"],
		func(ds *ds) *corev1.PodTemplateSpec { return &ds.Spec.Template },
		func(ds *ds) string { return metav1.FormatLabelSelector(ds.Spec.Selector) })...)
}

func validateDaemonSet(ds *appsv1.DaemonSet) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &ds.Spec
	at := p.Child("template")
	ps.Selector(p.Child("selector"), spec.Selector)
	if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		ps.Valid(s.Matches(labels.Set(spec.Template.Labels)),
			at.Child("metadata", "labels"), spec.Template.Labels, "`selector` does not match template `labels`")
	}
	if s := spec.Selector; s != nil {
		ps.Valid(len(s.MatchLabels)+len(s.MatchExpressions) > 0, p.Child("selector"), s, "empty selector is invalid for daemonset")
	}
	podspec.CheckTemplate(&ps, at, &spec.Template)
	check.OneOf(&ps, at.Child("spec", "restartPolicy"), spec.Template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	ps.Allowed(spec.Template.Spec.ActiveDeadlineSeconds == nil,
		at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in DaemonSet is not Supported")
	ps.NotNegative(p.Child("minReadySeconds"), int64(spec.MinReadySeconds))
	ps.NotNegative(p.Child("templateGeneration"), templateGeneration(ds))
	checkDaemonStrategy(&ps, p.Child("updateStrategy"), &spec.UpdateStrategy)
	ps.NotNegative(p.Child("revisionHistoryLimit"), int64(optional.Deref(spec.RevisionHistoryLimit)))
	return ps.List
}

// checkDaemonStrategy requires that an update either leaves a node without a pod for a while or
// runs two pods on it.
func checkDaemonStrategy(ps *check.Problems, p *field.Path, s *appsv1.DaemonSetUpdateStrategy) {
	at := p.Child("rollingUpdate")
	switch r := s.RollingUpdate; {
	case s.Type == appsv1.OnDeleteDaemonSetStrategyType:
	case s.Type != appsv1.RollingUpdateDaemonSetStrategyType:
		ps.Add(field.NotSupported(p, s, []string{"RollingUpdate", "OnDelete"}))
	case r == nil:
		ps.Add(field.Required(at, ""))
	default:
		check.IntOrPercent(ps, at.Child("maxUnavailable"), r.MaxUnavailable)
		check.IntOrPercent(ps, at.Child("maxSurge"), r.MaxSurge)
		check.AtMostAll(ps, at.Child("maxUnavailable"), r.MaxUnavailable)
		check.AtMostAll(ps, at.Child("maxSurge"), r.MaxSurge)
		none, two := check.IntOrPercentValue(r.MaxUnavailable) != 0, check.IntOrPercentValue(r.MaxSurge) != 0
		ps.Valid(!none || !two, at.Child("maxSurge"), r.MaxSurge, "may not be set when maxUnavailable is non-zero")
		ps.Present(none || two, at.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0")
	}
}

func validateDaemonSetUpdate(ds, old *appsv1.DaemonSet) field.ErrorList {
	var ps check.Problems
	ps.Immutable(field.NewPath("spec", "selector"), ds.Spec.Selector, old.Spec.Selector)
	return append(ps.List, validateDaemonSet(ds)...)
}

func validateDaemonSetStatus(ds, old *appsv1.DaemonSet) field.ErrorList {
	var ps check.Problems
	p, s := field.NewPath("status"), &ds.Status
	for _, c := range []check.Count{
		{Path: "currentNumberScheduled", Value: s.CurrentNumberScheduled}, {Path: "numberMisscheduled", Value: s.NumberMisscheduled},
		{Path: "desiredNumberScheduled", Value: s.DesiredNumberScheduled}, {Path: "numberReady", Value: s.NumberReady},
		{Path: "updatedNumberScheduled", Value: s.UpdatedNumberScheduled}, {Path: "numberAvailable", Value: s.NumberAvailable},
		{Path: "numberUnavailable", Value: s.NumberUnavailable},
	} {
		ps.NotNegative(p.Child(c.Path), int64(c.Value))
	}
	ps.NotNegative(p.Child("observedGeneration"), s.ObservedGeneration)
	checkCollisions(&ps, p, s.CollisionCount, old.Status.CollisionCount)
	return ps.List
}
