package apps

import (
	"fmt"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// StatefulSets returns the resource of the kind StatefulSet.
func StatefulSets() apiserver.Resource {
	main := define.Strategy[*appsv1.StatefulSet]{
		Counted: func(s *appsv1.StatefulSet) any { return &s.Spec },
		Default: completeStatefulSet,
		Create: func(s *appsv1.StatefulSet) {
			s.Status = appsv1.StatefulSetStatus{}
			dropMaxUnavailable(s, &appsv1.StatefulSet{})
		},
		Update: func(s, old *appsv1.StatefulSet) {
			old.Status.DeepCopyInto(&s.Status)
			dropMaxUnavailable(s, old)
		},
		Validate:       validateStatefulSet,
		ValidateUpdate: validateStatefulSetUpdate,
	}
	r := apiserver.For(kinds.StatefulSets, apiserver.Resource{
		Strategy: main.Erase(),
		Columns:  statefulSetColumns(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*appsv1.StatefulSet]{
				Update:         func(s, old *appsv1.StatefulSet) { old.Spec.DeepCopyInto(&s.Spec) },
				ValidateUpdate: validateStatefulSetStatus,
			}),
			define.Scale(main, kinds.StatefulSets, func(s *appsv1.StatefulSet) define.Scaled {
				return define.Scaled{Meta: s, Desired: &s.Spec.Replicas, Current: s.Status.Replicas, Selector: s.Spec.Selector}
			}),
		},
	})
	r.Strategy.ValidateName = apivalidation.NameIsDNSLabel
	return r
}

func completeStatefulSet(s *appsv1.StatefulSet) {
	spec := &s.Spec
	optional.SetIfEmpty(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		optional.SetIfNil(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		optional.SetIfNil(&r.Partition, 0)
	}
	optional.SetIfNil(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	optional.SetIfEmpty(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	optional.SetIfEmpty(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	optional.SetIfNil(&spec.Replicas, 1)
	optional.SetIfNil(&spec.RevisionHistoryLimit, 10)
	podspec.DefaultTemplate(&spec.Template)
	for i := range spec.VolumeClaimTemplates {
		c := &spec.VolumeClaimTemplates[i]
		// What is embedded says what it is.
		optional.SetIfEmpty(&c.APIVersion, "v1")
		optional.SetIfEmpty(&c.Kind, "PersistentVolumeClaim")
		optional.SetIfEmpty(&c.Status.Phase, corev1.ClaimPending)
		podspec.CompleteClaimSpec(&c.Spec)
	}
}

// dropMaxUnavailable drops a field that Kubernetes disables by default, unless the old object has
// it.
func dropMaxUnavailable(s, old *appsv1.StatefulSet) {
	now, was := s.Spec.UpdateStrategy.RollingUpdate, old.Spec.UpdateStrategy.RollingUpdate
	if now != nil && (was == nil || was.MaxUnavailable == nil) {
		now.MaxUnavailable = nil
	}
}

func statefulSetColumns() []apiserver.Column {
	columns := []apiserver.Column{
		column.Text("Ready", "Number of the pod with ready state", func(s *appsv1.StatefulSet) string {
			return fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, optional.Deref(s.Spec.Replicas))
		}),
		column.Age[*appsv1.StatefulSet](),
	}
	wide := column.PodTemplate("",
		func(s *appsv1.StatefulSet) *corev1.PodTemplateSpec { return &s.Spec.Template },
		func(*appsv1.StatefulSet) string { return "" })
	return append(columns, wide[:2]...)
}

func validateStatefulSet(s *appsv1.StatefulSet) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &s.Spec
	for i := range spec.VolumeClaimTemplates {
		podspec.CheckClaim(&ps, p.Child("volumeClaimTemplates").Index(i).Child("spec"), &spec.VolumeClaimTemplates[i].Spec)
	}
	checkStatefulSet(&ps, p, spec)
	if spec.ServiceName != "" {
		ps.DNSLabel(p.Child("serviceName"), spec.ServiceName)
	}
	return ps.List
}

// checkStatefulSet checks what may change after creation, too.
func checkStatefulSet(ps *check.Problems, p *field.Path, spec *appsv1.StatefulSetSpec) {
	switch spec.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		ps.Add(field.Invalid(p.Child("podManagementPolicy"), spec.PodManagementPolicy, "must be 'OrderedReady' or 'Parallel'"))
	}
	checkStatefulStrategy(ps, p.Child("updateStrategy"), &spec.UpdateStrategy)
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		at := p.Child("persistentVolumeClaimRetentionPolicy")
		for path, value := range map[string]appsv1.PersistentVolumeClaimRetentionPolicyType{
			"whenDeleted": policy.WhenDeleted, "whenScaled": policy.WhenScaled,
		} {
			check.OneOf(ps, at.Child(path), value,
				appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
		}
	}
	ps.NotNegative(p.Child("replicas"), int64(optional.Deref(spec.Replicas)))
	ps.NotNegative(p.Child("minReadySeconds"), int64(spec.MinReadySeconds))
	if spec.Ordinals != nil {
		ps.NotNegative(p.Child("ordinals.start"), int64(spec.Ordinals.Start))
	}
	if spec.Selector == nil {
		ps.Add(field.Required(p.Child("selector"), ""))
	} else {
		ps.Selector(p.Child("selector"), spec.Selector)
		ps.Valid(len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) > 0,
			p.Child("selector"), spec.Selector, "empty selector is invalid for statefulset")
	}
	at := p.Child("template")
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err != nil {
		ps.Add(field.Invalid(p.Child("selector"), spec.Selector, ""))
	} else {
		template := withClaims(spec)
		podspec.CheckSelects(ps, at, selector, template)
		podspec.CheckTemplate(ps, at, template)
		// Upstream says these twice.
		ps.Labels(at.Child("labels"), template.Labels)
		ps.All(apivalidation.ValidateAnnotations(template.Annotations, at.Child("annotations")))
	}
	check.OneOf(ps, at.Child("spec", "restartPolicy"), spec.Template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	ps.Allowed(spec.Template.Spec.ActiveDeadlineSeconds == nil,
		at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in StatefulSet is not Supported")
}

// withClaims returns the template as pods will have it: with a volume for each
// claim, and a host name that is not the template's.
func withClaims(spec *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	template := spec.Template.DeepCopy()
	template.Spec.Hostname, template.Spec.Subdomain = "", ""
	if len(spec.VolumeClaimTemplates) == 0 {
		return template
	}
	claimed := map[string]bool{}
	var volumes []corev1.Volume
	for _, c := range spec.VolumeClaimTemplates {
		if !claimed[c.Name] {
			volumes = append(volumes, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name},
			}})
		}
		claimed[c.Name] = true
	}
	for _, v := range template.Spec.Volumes {
		if !claimed[v.Name] {
			volumes = append(volumes, v)
		}
	}
	template.Spec.Volumes = volumes
	return template
}

func checkStatefulStrategy(ps *check.Problems, p *field.Path, s *appsv1.StatefulSetUpdateStrategy) {
	rolling, at := s.RollingUpdate, p.Child("rollingUpdate")
	switch s.Type {
	case appsv1.OnDeleteStatefulSetStrategyType:
		ps.Valid(rolling == nil, at, rolling, "only allowed for updateStrategy 'RollingUpdate'")
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if rolling == nil {
			return
		}
		ps.NotNegative(at.Child("partition"), int64(optional.Deref(rolling.Partition)))
		if n := rolling.MaxUnavailable; n != nil {
			at := at.Child("maxUnavailable")
			check.IntOrPercent(ps, at, n)
			ps.Valid(check.IntOrPercentValue(n) != 0, at, *n, "cannot be 0")
			check.AtMostAll(ps, at, n)
		}
	default:
		ps.Add(field.Invalid(p, *s, "must be 'RollingUpdate' or 'OnDelete'"))
	}
}

func validateStatefulSetUpdate(s, old *appsv1.StatefulSet) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("spec")
	checkStatefulSet(&ps, p, &s.Spec)
	rest, was := s.Spec.DeepCopy(), &old.Spec
	rest.Replicas, rest.Template, rest.UpdateStrategy = was.Replicas, was.Template, was.UpdateStrategy
	rest.MinReadySeconds, rest.Ordinals, rest.RevisionHistoryLimit = was.MinReadySeconds, was.Ordinals, was.RevisionHistoryLimit
	rest.PersistentVolumeClaimRetentionPolicy = was.PersistentVolumeClaimRetentionPolicy
	ps.Allowed(!define.Differ(rest, was), p, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "+
		"'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")
	return ps.List
}

func validateStatefulSetStatus(s, old *appsv1.StatefulSet) field.ErrorList {
	var ps check.Problems
	p, now := field.NewPath("status"), &s.Status
	ps.NotNegative(p.Child("replicas"), int64(now.Replicas))
	for _, c := range []check.Count{
		{Path: "readyReplicas", Value: now.ReadyReplicas}, {Path: "currentReplicas", Value: now.CurrentReplicas},
		{Path: "updatedReplicas", Value: now.UpdatedReplicas}, {Path: "availableReplicas", Value: now.AvailableReplicas},
	} {
		ps.NotNegative(p.Child(c.Path), int64(c.Value))
		ps.Valid(c.Value <= now.Replicas, p.Child(c.Path), c.Value, "cannot be greater than status.replicas")
	}
	ps.Valid(now.AvailableReplicas <= now.ReadyReplicas, p.Child("availableReplicas"), now.AvailableReplicas, "cannot be greater than status.readyReplicas")
	ps.NotNegative(p.Child("observedGeneration"), now.ObservedGeneration)
	checkCollisions(&ps, p, now.CollisionCount, old.Status.CollisionCount)
	return ps.List
}

// checkCollisions adds an error if the count of hash collisions decreases.
func checkCollisions(ps *check.Problems, p *field.Path, now, old *int32) {
	at := p.Child("collisionCount")
	ps.NotNegative(at, int64(optional.Deref(now)))
	ps.Valid(old == nil || optional.Deref(now) >= *old, at, optional.Deref(now), "cannot be decremented")
}
