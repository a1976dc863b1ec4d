package kube

import (
	"strconv"

	"github.com/planekit/planekit/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func daemonSets() apiserver.Resource {
	return apiserver.Resource{
		Group:      appsv1.GroupName,
		Version:    "v1",
		Kind:       "DaemonSet",
		Plural:     "daemonsets",
		ShortNames: []string{"ds"},
		Categories: []string{"all"},
		Namespaced: true,
		New:        func() runtime.Object { return &appsv1.DaemonSet{} },
		NewList:    func() runtime.Object { return &appsv1.DaemonSetList{} },
		Strategy: strategy[*appsv1.DaemonSet]{
			complete: completeDaemonSet,
			create: func(ds *appsv1.DaemonSet) {
				ds.Status = appsv1.DaemonSetStatus{}
				ds.Generation = 1
				setTemplateGeneration(ds, max(templateGeneration(ds), 1))
			},
			update:         updateDaemonSet,
			validate:       validateDaemonSet,
			validateUpdate: validateDaemonSetUpdate,
		}.erase(),
		Columns: daemonSetColumns(),
		Subresources: []apiserver.Subresource{
			status(strategy[*appsv1.DaemonSet]{
				update:         func(ds, old *appsv1.DaemonSet) { old.Spec.DeepCopyInto(&ds.Spec) },
				validateUpdate: validateDaemonSetStatus,
			}),
		},
	}
}

func completeDaemonSet(ds *appsv1.DaemonSet) {
	s := &ds.Spec.UpdateStrategy
	setIfEmpty(&s.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if s.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		setIfNil(&s.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		setIfNil(&s.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		setIfNil(&s.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	setIfNil(&ds.Spec.RevisionHistoryLimit, 10)
	defaultPodSpec(&ds.Spec.Template.Spec)
}

// updateDaemonSet counts the changes of the template in an annotation, which was
// a field once and which old controllers label their pods with.
func updateDaemonSet(ds, old *appsv1.DaemonSet) {
	old.Status.DeepCopyInto(&ds.Status)
	n := templateGeneration(old)
	if differ(&ds.Spec.Template, &old.Spec.Template) {
		n++
	}
	if n > 0 {
		setTemplateGeneration(ds, n)
	}
	ds.Generation = nextGeneration(old.Generation, differ(&ds.Spec, &old.Spec))
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
		number("Desired", doc["desiredNumberScheduled"], func(ds *ds) int64 { return int64(ds.Status.DesiredNumberScheduled) }),
		number("Current", doc["currentNumberScheduled"], func(ds *ds) int64 { return int64(ds.Status.CurrentNumberScheduled) }),
		number("Ready", doc["numberReady"], func(ds *ds) int64 { return int64(ds.Status.NumberReady) }),
		number("Up-to-date", doc["updatedNumberScheduled"], func(ds *ds) int64 { return int64(ds.Status.UpdatedNumberScheduled) }),
		number("Available", doc["numberAvailable"], func(ds *ds) int64 { return int64(ds.Status.NumberAvailable) }),
		text("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"], func(ds *ds) string {
			return labels.FormatLabels(ds.Spec.Template.Spec.NodeSelector)
		}),
		age[*ds](),
	}
	return append(columns, templateColumns(appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"],
		func(ds *ds) *corev1.PodTemplateSpec { return &ds.Spec.Template },
		func(ds *ds) string { return metav1.FormatLabelSelector(ds.Spec.Selector) })...)
}

func validateDaemonSet(ds *appsv1.DaemonSet) field.ErrorList {
	var ps problems
	p, spec := field.NewPath("spec"), &ds.Spec
	at := p.Child("template")
	ps.selector(p.Child("selector"), spec.Selector)
	if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		ps.valid(s.Matches(labels.Set(spec.Template.Labels)),
			at.Child("metadata", "labels"), spec.Template.Labels, "`selector` does not match template `labels`")
	}
	if s := spec.Selector; s != nil {
		ps.valid(len(s.MatchLabels)+len(s.MatchExpressions) > 0, p.Child("selector"), s, "empty selector is invalid for daemonset")
	}
	checkTemplate(&ps, at, &spec.Template)
	oneOf(&ps, at.Child("spec", "restartPolicy"), spec.Template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	ps.allowed(spec.Template.Spec.ActiveDeadlineSeconds == nil,
		at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in DaemonSet is not Supported")
	ps.notNegative(p.Child("minReadySeconds"), int64(spec.MinReadySeconds))
	ps.notNegative(p.Child("templateGeneration"), templateGeneration(ds))
	checkDaemonStrategy(&ps, p.Child("updateStrategy"), &spec.UpdateStrategy)
	ps.notNegative(p.Child("revisionHistoryLimit"), int64(deref(spec.RevisionHistoryLimit)))
	return ps.list
}

// checkDaemonStrategy lets a node have either no pod for a while or two.
func checkDaemonStrategy(ps *problems, p *field.Path, s *appsv1.DaemonSetUpdateStrategy) {
	at := p.Child("rollingUpdate")
	switch r := s.RollingUpdate; {
	case s.Type == appsv1.OnDeleteDaemonSetStrategyType:
	case s.Type != appsv1.RollingUpdateDaemonSetStrategyType:
		ps.add(field.NotSupported(p, s, []string{"RollingUpdate", "OnDelete"}))
	case r == nil:
		ps.add(field.Required(at, ""))
	default:
		checkShare(ps, at.Child("maxUnavailable"), r.MaxUnavailable)
		checkShare(ps, at.Child("maxSurge"), r.MaxSurge)
		checkWhole(ps, at.Child("maxUnavailable"), r.MaxUnavailable)
		checkWhole(ps, at.Child("maxSurge"), r.MaxSurge)
		none, two := shareValue(r.MaxUnavailable) != 0, shareValue(r.MaxSurge) != 0
		ps.valid(!none || !two, at.Child("maxSurge"), r.MaxSurge, "may not be set when maxUnavailable is non-zero")
		ps.present(none || two, at.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0")
	}
}

func validateDaemonSetUpdate(ds, old *appsv1.DaemonSet) field.ErrorList {
	ps := problems{list: validateDaemonSet(ds)}
	ps.immutable(field.NewPath("spec", "selector"), ds.Spec.Selector, old.Spec.Selector)
	return ps.list
}

func validateDaemonSetStatus(ds, old *appsv1.DaemonSet) field.ErrorList {
	var ps problems
	p, s := field.NewPath("status"), &ds.Status
	for _, c := range []count{
		{"currentNumberScheduled", s.CurrentNumberScheduled}, {"numberMisscheduled", s.NumberMisscheduled},
		{"desiredNumberScheduled", s.DesiredNumberScheduled}, {"numberReady", s.NumberReady},
		{"updatedNumberScheduled", s.UpdatedNumberScheduled}, {"numberAvailable", s.NumberAvailable},
		{"numberUnavailable", s.NumberUnavailable},
	} {
		ps.notNegative(p.Child(c.path), int64(c.value))
	}
	ps.notNegative(p.Child("observedGeneration"), s.ObservedGeneration)
	checkCollisions(&ps, p, s.CollisionCount, old.Status.CollisionCount)
	return ps.list
}
