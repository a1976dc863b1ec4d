package kube

import (
	"fmt"

	"github.com/planekit/planekit/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func statefulSets() apiserver.Resource {
	main := strategy[*appsv1.StatefulSet]{
		complete: completeStatefulSet,
		create: func(s *appsv1.StatefulSet) {
			s.Status = appsv1.StatefulSetStatus{}
			s.Generation = 1
			dropMaxUnavailable(s, &appsv1.StatefulSet{})
		},
		update: func(s, old *appsv1.StatefulSet) {
			old.Status.DeepCopyInto(&s.Status)
			dropMaxUnavailable(s, old)
			s.Generation = nextGeneration(old.Generation, differ(&s.Spec, &old.Spec))
		},
		validate:       validateStatefulSet,
		validateUpdate: validateStatefulSetUpdate,
	}
	r := apiserver.Resource{
		Group:      appsv1.GroupName,
		Version:    "v1",
		Kind:       "StatefulSet",
		Plural:     "statefulsets",
		ShortNames: []string{"sts"},
		Categories: []string{"all"},
		Namespaced: true,
		New:        func() runtime.Object { return &appsv1.StatefulSet{} },
		NewList:    func() runtime.Object { return &appsv1.StatefulSetList{} },
		Strategy:   main.erase(),
		Columns:    statefulSetColumns(),
		Subresources: []apiserver.Subresource{
			status(strategy[*appsv1.StatefulSet]{
				update:         func(s, old *appsv1.StatefulSet) { old.Spec.DeepCopyInto(&s.Spec) },
				validateUpdate: validateStatefulSetStatus,
			}),
			scale(main, "statefulsets", func(s *appsv1.StatefulSet) scaled {
				return scaled{s, &s.Spec.Replicas, s.Status.Replicas, s.Spec.Selector}
			}),
		},
	}
	r.Strategy.ValidateName = apivalidation.NameIsDNSLabel
	return r
}

func completeStatefulSet(s *appsv1.StatefulSet) {
	spec := &s.Spec
	setIfEmpty(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		setIfNil(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		setIfNil(&r.Partition, 0)
	}
	setIfNil(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	setIfEmpty(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	setIfEmpty(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	setIfNil(&spec.Replicas, 1)
	setIfNil(&spec.RevisionHistoryLimit, 10)
	defaultPodSpec(&spec.Template.Spec)
	for i := range spec.VolumeClaimTemplates {
		c := &spec.VolumeClaimTemplates[i]
		// What is embedded says what it is.
		setIfEmpty(&c.APIVersion, "v1")
		setIfEmpty(&c.Kind, "PersistentVolumeClaim")
		setIfEmpty(&c.Status.Phase, corev1.ClaimPending)
		completeClaimSpec(&c.Spec)
	}
}

// dropMaxUnavailable drops a field that is off by default upstream, unless it is
// in use already.
func dropMaxUnavailable(s, old *appsv1.StatefulSet) {
	now, was := s.Spec.UpdateStrategy.RollingUpdate, old.Spec.UpdateStrategy.RollingUpdate
	if now != nil && (was == nil || was.MaxUnavailable == nil) {
		now.MaxUnavailable = nil
	}
}

func statefulSetColumns() []apiserver.Column {
	columns := []apiserver.Column{
		text("Ready", "Number of the pod with ready state", func(s *appsv1.StatefulSet) string {
			return fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, deref(s.Spec.Replicas))
		}),
		age[*appsv1.StatefulSet](),
	}
	wide := templateColumns("",
		func(s *appsv1.StatefulSet) *corev1.PodTemplateSpec { return &s.Spec.Template },
		func(*appsv1.StatefulSet) string { return "" })
	return append(columns, wide[:2]...)
}

func validateStatefulSet(s *appsv1.StatefulSet) field.ErrorList {
	var ps problems
	p, spec := field.NewPath("spec"), &s.Spec
	checkStatefulSet(&ps, p, spec)
	for i := range spec.VolumeClaimTemplates {
		checkClaim(&ps, p.Child("volumeClaimTemplates").Index(i).Child("spec"), &spec.VolumeClaimTemplates[i].Spec)
	}
	if spec.ServiceName != "" {
		ps.dnsLabel(p.Child("serviceName"), spec.ServiceName)
	}
	return ps.list
}

// checkStatefulSet checks what may change after creation, too.
func checkStatefulSet(ps *problems, p *field.Path, spec *appsv1.StatefulSetSpec) {
	switch spec.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		ps.add(field.Invalid(p.Child("podManagementPolicy"), spec.PodManagementPolicy, "must be 'OrderedReady' or 'Parallel'"))
	}
	checkStatefulStrategy(ps, p.Child("updateStrategy"), &spec.UpdateStrategy)
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		at := p.Child("persistentVolumeClaimRetentionPolicy")
		for path, value := range map[string]appsv1.PersistentVolumeClaimRetentionPolicyType{
			"whenDeleted": policy.WhenDeleted, "whenScaled": policy.WhenScaled,
		} {
			oneOf(ps, at.Child(path), value,
				appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
		}
	}
	ps.notNegative(p.Child("replicas"), int64(deref(spec.Replicas)))
	ps.notNegative(p.Child("minReadySeconds"), int64(spec.MinReadySeconds))
	if spec.Ordinals != nil {
		ps.notNegative(p.Child("ordinals.start"), int64(spec.Ordinals.Start))
	}
	if spec.Selector == nil {
		ps.add(field.Required(p.Child("selector"), ""))
	} else {
		ps.selector(p.Child("selector"), spec.Selector)
		ps.valid(len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) > 0,
			p.Child("selector"), spec.Selector, "empty selector is invalid for statefulset")
	}
	at := p.Child("template")
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err != nil {
		ps.add(field.Invalid(p.Child("selector"), spec.Selector, ""))
	} else {
		template := withClaims(spec)
		checkSelects(ps, at, selector, template)
		checkTemplate(ps, at, template)
		// Upstream says these twice.
		ps.labels(at.Child("labels"), template.Labels)
		ps.all(apivalidation.ValidateAnnotations(template.Annotations, at.Child("annotations")))
	}
	oneOf(ps, at.Child("spec", "restartPolicy"), spec.Template.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	ps.allowed(spec.Template.Spec.ActiveDeadlineSeconds == nil,
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

func checkStatefulStrategy(ps *problems, p *field.Path, s *appsv1.StatefulSetUpdateStrategy) {
	rolling, at := s.RollingUpdate, p.Child("rollingUpdate")
	switch s.Type {
	case appsv1.OnDeleteStatefulSetStrategyType:
		ps.valid(rolling == nil, at, rolling, "only allowed for updateStrategy 'RollingUpdate'")
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if rolling == nil {
			return
		}
		ps.notNegative(at.Child("partition"), int64(deref(rolling.Partition)))
		if n := rolling.MaxUnavailable; n != nil {
			at := at.Child("maxUnavailable")
			checkShare(ps, at, n)
			ps.valid(shareValue(n) != 0, at, *n, "cannot be 0")
			checkWhole(ps, at, n)
		}
	default:
		ps.add(field.Invalid(p, *s, "must be 'RollingUpdate' or 'OnDelete'"))
	}
}

// checkWhole refuses more than all.
func checkWhole(ps *problems, p *field.Path, n *intstr.IntOrString) {
	ps.valid(n == nil || n.Type != intstr.String || shareValue(n) <= 100, p, n, "must not be greater than 100%")
}

func validateStatefulSetUpdate(s, old *appsv1.StatefulSet) field.ErrorList {
	var ps problems
	p := field.NewPath("spec")
	checkStatefulSet(&ps, p, &s.Spec)
	rest, was := s.Spec.DeepCopy(), &old.Spec
	rest.Replicas, rest.Template, rest.UpdateStrategy = was.Replicas, was.Template, was.UpdateStrategy
	rest.MinReadySeconds, rest.Ordinals, rest.RevisionHistoryLimit = was.MinReadySeconds, was.Ordinals, was.RevisionHistoryLimit
	rest.PersistentVolumeClaimRetentionPolicy = was.PersistentVolumeClaimRetentionPolicy
	ps.allowed(!differ(rest, was), p, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "+
		"'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")
	return ps.list
}

func validateStatefulSetStatus(s, old *appsv1.StatefulSet) field.ErrorList {
	var ps problems
	p, now := field.NewPath("status"), &s.Status
	ps.notNegative(p.Child("replicas"), int64(now.Replicas))
	for _, c := range []count{
		{"readyReplicas", now.ReadyReplicas}, {"currentReplicas", now.CurrentReplicas},
		{"updatedReplicas", now.UpdatedReplicas}, {"availableReplicas", now.AvailableReplicas},
	} {
		ps.notNegative(p.Child(c.path), int64(c.value))
		ps.valid(c.value <= now.Replicas, p.Child(c.path), c.value, "cannot be greater than status.replicas")
	}
	ps.valid(now.AvailableReplicas <= now.ReadyReplicas, p.Child("availableReplicas"), now.AvailableReplicas, "cannot be greater than status.readyReplicas")
	ps.notNegative(p.Child("observedGeneration"), now.ObservedGeneration)
	checkCollisions(&ps, p, now.CollisionCount, old.Status.CollisionCount)
	return ps.list
}

// checkCollisions lets the count of hash collisions only grow.
func checkCollisions(ps *problems, p *field.Path, now, old *int32) {
	at := p.Child("collisionCount")
	ps.notNegative(at, int64(deref(now)))
	ps.valid(old == nil || deref(now) >= *old, at, deref(now), "cannot be decremented")
}
