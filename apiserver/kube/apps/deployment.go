package apps

import (
	"fmt"
	"maps"

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
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Deployments returns the resource of the kind Deployment.
func Deployments() apiserver.Resource {
	main := define.Strategy[*appsv1.Deployment]{
		Default: completeDeployment,
		Create: func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{}
			d.Generation = 1
		},
		Update:         updateDeployment,
		Validate:       validateDeployment,
		ValidateUpdate: validateDeploymentUpdate,
	}
	return apiserver.For(kinds.Deployments, apiserver.Resource{
		Strategy: main.Erase(),
		Columns:  deploymentColumns(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*appsv1.Deployment]{
				Update: func(d, old *appsv1.Deployment) {
					old.Spec.DeepCopyInto(&d.Spec)
					d.Labels = maps.Clone(old.Labels)
				},
				ValidateUpdate: validateDeploymentStatus,
			}, "spec", "metadata.labels"),
			define.Scale(main, kinds.Deployments, func(d *appsv1.Deployment) define.Scaled {
				return define.Scaled{Meta: d, Desired: &d.Spec.Replicas, Current: d.Status.Replicas, Selector: d.Spec.Selector}
			}),
		},
	})
}

func completeDeployment(d *appsv1.Deployment) {
	optional.SetIfNil(&d.Spec.Replicas, 1)
	s := &d.Spec.Strategy
	optional.SetIfEmpty(&s.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Type == appsv1.RollingUpdateDeploymentStrategyType {
		optional.SetIfNil(&s.RollingUpdate, appsv1.RollingUpdateDeployment{})
		optional.SetIfNil(&s.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		optional.SetIfNil(&s.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	optional.SetIfNil(&d.Spec.RevisionHistoryLimit, 10)
	optional.SetIfNil(&d.Spec.ProgressDeadlineSeconds, 600)
	podspec.DefaultTemplate(&d.Spec.Template)
}

// updateDeployment raises the generation for changes of annotations too, because they are copied to
// the replica sets.
func updateDeployment(d, old *appsv1.Deployment) {
	old.Status.DeepCopyInto(&d.Status)
	d.Generation = define.NextGeneration(old.Generation, define.Differ(&d.Spec, &old.Spec) || define.Differ(d.Annotations, old.Annotations))
}

func deploymentColumns() []apiserver.Column {
	doc := appsv1.DeploymentStatus{}.SwaggerDoc()
	columns := []apiserver.Column{
		column.Text("Ready", "Number of the pod with ready state", func(d *appsv1.Deployment) string {
			return fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, optional.Deref(d.Spec.Replicas))
		}),
		column.Count("Up-to-date", doc["updatedReplicas"], func(d *appsv1.Deployment) int32 { return d.Status.UpdatedReplicas }),
		column.Count("Available", doc["availableReplicas"], func(d *appsv1.Deployment) int32 { return d.Status.AvailableReplicas }),
		column.Age[*appsv1.Deployment](),
	}
	return append(columns, column.PodTemplate(appsv1.DeploymentSpec{}.SwaggerDoc()["selector"],
		func(d *appsv1.Deployment) *corev1.PodTemplateSpec { return &d.Spec.Template },
		func(d *appsv1.Deployment) string { return selectorText(d.Spec.Selector) })...)
}

// selectorText writes a selector as kubectl's -l takes it.
func selectorText(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "<invalid>"
	}
	return selector.String()
}

func validateDeployment(d *appsv1.Deployment) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &d.Spec
	ps.NotNegative(p.Child("replicas"), int64(optional.Deref(spec.Replicas)))
	checkReplicaTemplate(&ps, p, spec.Selector, &spec.Template)
	checkDeploymentStrategy(&ps, p.Child("strategy"), &spec.Strategy)
	ps.NotNegative(p.Child("minReadySeconds"), int64(spec.MinReadySeconds))
	if limit := spec.RevisionHistoryLimit; limit != nil {
		ps.NotNegative(p.Child("revisionHistoryLimit"), int64(*limit))
	}
	if deadline := spec.ProgressDeadlineSeconds; deadline != nil {
		at := p.Child("progressDeadlineSeconds")
		ps.NotNegative(at, int64(*deadline))
		ps.Valid(*deadline > spec.MinReadySeconds, at, deadline, "must be greater than minReadySeconds")
	}
	return ps.List
}

func validateDeploymentUpdate(d, old *appsv1.Deployment) field.ErrorList {
	ps := check.Problems{List: validateDeployment(d)}
	ps.Immutable(field.NewPath("spec", "selector"), d.Spec.Selector, old.Spec.Selector)
	return ps.List
}

// checkReplicaTemplate checks selector and template of something that keeps a
// number of pods running: the selector must find the pods, and they must not end.
func checkReplicaTemplate(ps *check.Problems, p *field.Path, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) {
	if selector == nil {
		ps.Add(field.Required(p.Child("selector"), ""))
	} else {
		ps.Selector(p.Child("selector"), selector)
		ps.Valid(len(selector.MatchLabels)+len(selector.MatchExpressions) > 0,
			p.Child("selector"), selector, "empty selector is invalid for deployment")
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		ps.Add(field.Invalid(p.Child("selector"), selector, "invalid label selector"))
		return
	}
	at := p.Child("template")
	podspec.CheckSelects(ps, at, s, template)
	podspec.CheckTemplate(ps, at, template)
	check.OneOf(ps, at.Child("spec", "restartPolicy"), template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	ps.Allowed(template.Spec.ActiveDeadlineSeconds == nil,
		at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicaSet is not Supported")
}

func checkDeploymentStrategy(ps *check.Problems, p *field.Path, s *appsv1.DeploymentStrategy) {
	rolling := p.Child("rollingUpdate")
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		ps.Allowed(s.RollingUpdate == nil, rolling, "may not be specified when strategy `type` is 'Recreate'")
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			ps.Add(field.Required(rolling, "this should be defaulted and never be nil"))
			return
		}
		unavailable, surge := s.RollingUpdate.MaxUnavailable, s.RollingUpdate.MaxSurge
		check.IntOrPercent(ps, rolling.Child("maxUnavailable"), unavailable)
		check.IntOrPercent(ps, rolling.Child("maxSurge"), surge)
		ps.Valid(check.IntOrPercentValue(unavailable) != 0 || check.IntOrPercentValue(surge) != 0,
			rolling.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0")
		ps.Valid(unavailable == nil || unavailable.Type != intstr.String || check.IntOrPercentValue(unavailable) <= 100,
			rolling.Child("maxUnavailable"), unavailable, "must not be greater than 100%")
	default:
		check.OneOf(ps, p, s.Type, appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType)
	}
}

func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	var ps check.Problems
	p, s := field.NewPath("status"), &d.Status
	check.Counts(&ps, p, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, check.Count{Path: "updatedReplicas", Value: s.UpdatedReplicas})
	ps.NotNegative(p.Child("observedGeneration"), s.ObservedGeneration)
	ps.NotNegative(p.Child("unavailableReplicas"), int64(s.UnavailableReplicas))
	ps.NotNegative(p.Child("terminatingReplicas"), int64(optional.Deref(s.TerminatingReplicas)))
	collisions := p.Child("collisionCount")
	ps.NotNegative(collisions, int64(optional.Deref(s.CollisionCount)))
	ps.Valid(optional.Deref(s.CollisionCount) >= optional.Deref(old.Status.CollisionCount),
		collisions, optional.Deref(s.CollisionCount), "cannot be decremented")
	return ps.List
}
