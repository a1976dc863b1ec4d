package kube

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateDeployment(d *appsv1.Deployment) field.ErrorList {
	var ps problems
	p, spec := field.NewPath("spec"), &d.Spec
	ps.notNegative(p.Child("replicas"), int64(deref(spec.Replicas)))
	checkReplicaTemplate(&ps, p, spec.Selector, &spec.Template)
	checkDeploymentStrategy(&ps, p.Child("strategy"), &spec.Strategy)
	ps.notNegative(p.Child("minReadySeconds"), int64(spec.MinReadySeconds))
	if limit := spec.RevisionHistoryLimit; limit != nil {
		ps.notNegative(p.Child("revisionHistoryLimit"), int64(*limit))
	}
	if deadline := spec.ProgressDeadlineSeconds; deadline != nil {
		at := p.Child("progressDeadlineSeconds")
		ps.notNegative(at, int64(*deadline))
		ps.valid(*deadline > spec.MinReadySeconds, at, deadline, "must be greater than minReadySeconds")
	}
	return ps.list
}

func validateDeploymentUpdate(d, old *appsv1.Deployment) field.ErrorList {
	ps := problems{list: validateDeployment(d)}
	ps.immutable(field.NewPath("spec", "selector"), d.Spec.Selector, old.Spec.Selector)
	return ps.list
}

// checkReplicaTemplate checks selector and template of something that keeps a
// number of pods running: the selector must find the pods, and they must not end.
func checkReplicaTemplate(ps *problems, p *field.Path, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) {
	if selector == nil {
		ps.add(field.Required(p.Child("selector"), ""))
	} else {
		ps.selector(p.Child("selector"), selector)
		ps.valid(len(selector.MatchLabels)+len(selector.MatchExpressions) > 0,
			p.Child("selector"), selector, "empty selector is invalid for deployment")
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		ps.add(field.Invalid(p.Child("selector"), selector, "invalid label selector"))
		return
	}
	at := p.Child("template")
	checkSelects(ps, at, s, template)
	checkTemplate(ps, at, template)
	oneOf(ps, at.Child("spec", "restartPolicy"), template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	ps.allowed(template.Spec.ActiveDeadlineSeconds == nil,
		at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicaSet is not Supported")
}

// checkSelects requires a selector to find what the template makes. A missing
// selector finds nothing, an empty one everything.
func checkSelects(ps *problems, p *field.Path, s labels.Selector, template *corev1.PodTemplateSpec) {
	ps.valid(s.Empty() || s.Matches(labels.Set(template.Labels)),
		p.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`")
}

func checkDeploymentStrategy(ps *problems, p *field.Path, s *appsv1.DeploymentStrategy) {
	rolling := p.Child("rollingUpdate")
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		ps.allowed(s.RollingUpdate == nil, rolling, "may not be specified when strategy `type` is 'Recreate'")
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			ps.add(field.Required(rolling, "this should be defaulted and never be nil"))
			return
		}
		unavailable, surge := s.RollingUpdate.MaxUnavailable, s.RollingUpdate.MaxSurge
		checkShare(ps, rolling.Child("maxUnavailable"), unavailable)
		checkShare(ps, rolling.Child("maxSurge"), surge)
		ps.valid(shareValue(unavailable) != 0 || shareValue(surge) != 0,
			rolling.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0")
		ps.valid(unavailable == nil || unavailable.Type != intstr.String || shareValue(unavailable) <= 100,
			rolling.Child("maxUnavailable"), unavailable, "must not be greater than 100%")
	default:
		oneOf(ps, p, s.Type, appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType)
	}
}

// checkShare requires a number of pods or a percentage.
func checkShare(ps *problems, p *field.Path, v *intstr.IntOrString) {
	switch {
	case v == nil:
	case v.Type == intstr.String:
		ps.each(p, *v, validation.IsValidPercent(v.StrVal))
	default:
		ps.notNegative(p, int64(v.IntValue()))
	}
}

// shareValue is the number, be it of pods or of percent; zero for what is
// neither.
func shareValue(v *intstr.IntOrString) int {
	if v == nil {
		return 0
	}
	if v.Type == intstr.Int {
		return v.IntValue()
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%")) // 0 where checkShare complains
	return n
}

func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	var ps problems
	p, s := field.NewPath("status"), &d.Status
	checkCounts(&ps, p, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, count{"updatedReplicas", s.UpdatedReplicas})
	ps.notNegative(p.Child("observedGeneration"), s.ObservedGeneration)
	ps.notNegative(p.Child("unavailableReplicas"), int64(s.UnavailableReplicas))
	ps.notNegative(p.Child("terminatingReplicas"), int64(deref(s.TerminatingReplicas)))
	collisions := p.Child("collisionCount")
	ps.notNegative(collisions, int64(deref(s.CollisionCount)))
	ps.valid(deref(s.CollisionCount) >= deref(old.Status.CollisionCount),
		collisions, deref(s.CollisionCount), "cannot be decremented")
	return ps.list
}

// count is a number of pods in some state.
type count struct {
	path  string
	value int32
}

// checkCounts checks that the parts are no more than the whole.
func checkCounts(ps *problems, p *field.Path, replicas, ready, available int32, other count) {
	ps.notNegative(p.Child("replicas"), int64(replicas))
	for _, c := range []count{other, {"readyReplicas", ready}, {"availableReplicas", available}} {
		ps.notNegative(p.Child(c.path), int64(c.value))
		ps.valid(c.value <= replicas, p.Child(c.path), c.value, "cannot be greater than status.replicas")
	}
	ps.valid(available <= ready, p.Child("availableReplicas"), available, "cannot be greater than readyReplicas")
}
